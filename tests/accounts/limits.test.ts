import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SlidingCounter } from './limits.ts';

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
