import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CalendarCounter, fallenInDoubles, SlidingCounter } from './limits.ts';

test('in any time t at most limit + limit × t pass, in windows of a second, a minute or an hour', () => {
  const calls = fc.array(fc.record({ after: fc.bigInt(0n, 40n), amount: fc.bigInt(0n, 12n) }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.bigInt(1n, 20n), fc.bigInt(1n, 50n), calls, (limit, window, sequence) => {
      const counter = new SlidingCounter(limit, window);
      const passed: { now: bigint; amount: bigint }[] = [];
      let now = 1_000n;
      for (const { after, amount } of sequence) {
        now += after;
        if (counter.take(amount, now)) passed.push({ now, amount });
        for (let i = passed.length - 1, sum = 0n; i >= 0; i--) {
          sum += passed[i]!.amount;
          assert.ok((sum - limit) * window <= limit * (passed.at(-1)!.now - passed[i]!.now));
        }
      }
    }),
    { numRuns: 2_000 },
  );
});

test('a sliding limit lets all of it through at once, and then as much as its share of the time', () => {
  const counter = new SlidingCounter(10n, 60n);
  assert.ok(counter.take(10n, 100n));
  assert.not(counter.take(1n, 105n));
  assert.is(counter.resetAt(105n), 160n);
  assert.ok(counter.take(1n, 106n));
  assert.is(counter.remaining(1_000n), 10n);
});

test("a capture corrects its hold's window while that runs", () => {
  const daily = new CalendarCounter(10n, { unit: 'day', count: 1 }, 'UTC');
  daily.take(10n, 1_000);
  daily.correct(10n, 4n, 1_000, 2_000);
  assert.is(daily.remaining(2_000), 6n);
  daily.take(6n, 86_399_999);
  daily.take(3n, 86_400_000);
  daily.correct(6n, 0n, 86_399_999, 86_400_001);
  assert.is(daily.remaining(86_400_001), 7n);
});

test('what a capture gives back never lets more through than if the hold had been what was used', () => {
  const call = fc.record({ after: fc.bigInt(0n, 20n), amount: fc.bigInt(0n, 10n) });
  fc.assert(
    fc.property(
      fc.bigInt(10n, 20n),
      fc.bigInt(1n, 10n),
      fc.bigInt(0n, 10n),
      fc.array(call),
      (limit, held, part, calls) => {
        const used = part < held ? part : held;
        const [counter, known] = [new SlidingCounter(limit, 60n), new SlidingCounter(limit, 60n)];
        let now = 100n;
        counter.take(held, now);
        known.take(used, now);
        for (const { after, amount } of calls) {
          now += after;
          if (counter.take(amount, now)) known.take(amount, now);
        }
        counter.correct(held, used, 100n, now);
        // Each rounding is in the service's favour, by less than one.
        assert.ok(counter.levelAt(now) + BigInt(calls.length + 1) >= known.levelAt(now));
      },
    ),
    { numRuns: 2_000 },
  );
});

test('the arithmetic of doubles is exact for every limit and window', () => {
  // As units of time of the longest windows of each kind: 59 seconds, 59 minutes and 23 hours.
  for (const window of [1_000_000, 60_000_000, 36_000_000, 59_000_000, 35_400_000, 82_800_000])
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9e15 }), fc.integer({ min: 0, max: window - 1 }), (limit, elapsed) => {
        const exact = (BigInt(limit) * BigInt(elapsed)) / BigInt(window);
        assert.is(BigInt(fallenInDoubles(limit, window, elapsed)), exact);
      }),
      { numRuns: 5_000 },
    );
});
