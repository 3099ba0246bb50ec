import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { creditLimit, creditsFromNumber, formatCredits, MAX_MICROS, parseCredits } from './credits.ts';

const micros = fc.integer({ min: 0, max: MAX_MICROS });

// The slow and safe way: whole numbers of any size, no doubles.
function textOf(amount: bigint): string {
  const fraction = String(amount % 1_000_000n)
    .padStart(6, '0')
    .replace(/0+$/, '');
  return fraction ? `${amount / 1_000_000n}.${fraction}` : String(amount / 1_000_000n);
}

test('every amount is written canonically and read back exactly, also with zeros that count for nothing; a correction with its sign', () => {
  assert.equal([-1, -2_500_000, 0].map(formatCredits), ['-0.000001', '-2.5', '0']);
  fc.assert(
    fc.property(micros, (amount) => {
      const text = formatCredits(amount);
      assert.is(text, textOf(BigInt(amount)));
      const [whole, fraction = ''] = text.split('.');
      for (const written of [text, `${whole!.padStart(10, '0')}.${fraction.padEnd(6, '0')}`])
        assert.is(parseCredits(written), amount);
    }),
    { numRuns: 2_000 },
  );
});

test('text that is not an amount is refused', () => {
  const words =
    '. .5 5. -1 +1 1e3 1,5 0x1 ١ 1.0000000 NaN Infinity 9000000000.000001 9000000001 9999999999.999999 00000000001';
  for (const text of ['', ' 1', '1 ', '1\n', ...words.split(' ')]) assert.is(parseCredits(text), undefined, text);
  assert.is(parseCredits('9000000000'), MAX_MICROS);
  fc.assert(
    fc.property(fc.string(), (text) => {
      const amount = parseCredits(text);
      if (amount !== undefined) assert.ok(/^\d{1,10}(\.\d{1,6})?$/.test(text) && amount >= 0 && amount <= MAX_MICROS);
    }),
  );
});

test('a JSON number is the amount that was written, and one that is no amount is refused', () => {
  // Up to 2^33 credits every amount has a double of its own. Above, neighbouring amounts share doubles and are refused.
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2 ** 33 * 1_000_000 }), (amount) => {
      const json: unknown = JSON.parse(formatCredits(amount));
      assert.is(creditsFromNumber(json as number), amount);
    }),
    { numRuns: 5_000 },
  );
  // Fifteen significant digits always survive: five decimals at any size.
  fc.assert(
    fc.property(fc.integer({ min: 1, max: MAX_MICROS / 10 }), (tens) => {
      assert.is(creditsFromNumber(Number(formatCredits(tens * 10))), tens * 10);
    }),
    { numRuns: 5_000 },
  );
  for (const value of [0, -0, -1, 1e-7, 0.0000015, 1.0000001, 9_000_000_000.5, 1e21, 1e300, NaN, Infinity])
    assert.is(creditsFromNumber(value), undefined, String(value));
  assert.is(creditsFromNumber(0.1 + 0.2), undefined, 'a rounding error of the client is refused, not rounded away');
  // Written as .000001, it would have been booked as .000002.
  assert.is(creditsFromNumber(JSON.parse('8999999000.000001')), undefined);
  assert.is(creditsFromNumber(1e-6), 1);
  assert.is(creditsFromNumber(1e9), 1e15);
});

test('the limit is the lower of what was bought and the cap, or the cap alone where overages are allowed', () => {
  const limit = (totalMicros: number, allowOverages: boolean, spendCapMicros: number | null) =>
    creditLimit({ totalMicros, allowOverages, spendCapMicros });
  fc.assert(
    fc.property(micros, micros, (total, cap) => {
      assert.is(limit(total, false, null), total);
      assert.is(limit(total, false, cap), Math.min(total, cap));
      assert.is(limit(total, true, cap), cap);
      assert.is(limit(total, true, null), MAX_MICROS);
    }),
  );
});
