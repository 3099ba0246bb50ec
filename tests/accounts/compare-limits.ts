import * as fc from 'fast-check';
import type { Redis } from 'ioredis';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import { slidingWindow, windowOf } from '../../shared/stores/limits.ts';
import { windowAt } from '../../shared/values/calendar.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import type { Run } from './compare-accounts.ts';
import { ModelLimit, msOf, type Noted } from './limits.ts';
import { loadScripts, recordOfProduct, type Answered } from './product-scripts.ts';
import { setMicros } from './test-shard.ts';

// Limits in the verify script, on a real Redis, against the model of limits.ts: of all windows, at any instant.

type Call = { do: 'verify'; micros: number; usageName: string; twice: boolean };
type Command =
  | Call
  | { do: 'wait'; micros: bigint }
  | { do: 'turn'; of: number; byMs: number }
  | { do: 'back'; ms: number }
  | { do: 'amount'; of: number; amount: number }
  | { do: 'cancel'; of: number };

// Whatever changes is looked at by the next call.
const AFTER_CHANGE: Command = { do: 'verify', micros: 100_001, usageName: 'a', twice: false };

const zones = ['UTC', 'Asia/Kathmandu', 'America/St_Johns', 'Europe/Berlin', 'Africa/Cairo'];
const oneOf = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'];
// In each of the units in which Redis counts time; 36 seconds have as many of theirs as an hour.
const someOf = ['2 seconds', '36 seconds', '5 minutes', '59 minutes', '10 hours', '23 hours', '2 days', '31 days'];
const windows = [...oneOf, ...someOf];
const limitOf = fc
  .record({
    unit: fc.constantFrom('requests' as const, 'credits' as const),
    amount: fc.integer({ min: 1, max: 9 }),
    per: fc.constantFrom(...windows),
    timezone: fc.constantFrom(...zones),
    usageName: fc.option(fc.constantFrom('a', 'b'), { nil: undefined }),
    shadow: fc.boolean(),
  })
  .map(({ unit, amount, per, timezone, usageName, shadow }) => {
    const slides = slidingWindow(per) !== undefined;
    const limit = { unit, per, limit: unit === 'requests' ? amount : formatCredits(amount * 333_333) };
    return { ...limit, ...(!slides && { timezone }), ...(usageName && { usageName }), ...(shadow && { shadow }) };
  });
const listOf = (maxLength: number) =>
  fc.array(limitOf, { maxLength }).map((limits) => limits.map((limit, i) => ({ name: `limit ${i}`, ...limit })));
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('verify' as const),
      micros: fc.integer({ min: 0, max: 2_000_000 }),
      usageName: fc.constantFrom('a', 'b', 'c'),
      twice: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), micros: fc.bigInt(0n, 900_000n) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), micros: fc.bigInt(0n, 4_000_000_000n) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('turn' as const), of: fc.nat(7), byMs: fc.constantFrom(-1, 0, 1) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), of: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('back' as const), ms: fc.integer({ min: 1, max: 5_000 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('amount' as const),
      of: fc.nat(7),
      amount: fc.integer({ min: 1, max: 20 }),
    }),
  },
);

// Clocks change within these days, in Berlin, Cairo and St. John's.
const start = fc.constantFrom(
  '2026-03-29T00:59:00Z',
  '2026-10-25T00:30:00Z',
  '2026-04-23T21:50:00Z',
  '2026-12-31T17:00:00Z',
);
const sequences = (most: number) =>
  fc.record({
    ofKey: listOf(4),
    ofRecord: listOf(4),
    from: start,
    commands: fc.array(command, { minLength: 1, maxLength: most, size: 'max' }),
  });
type Sequence = { ofKey: Limit[]; ofRecord: Limit[]; from: string; commands: Command[] };

/** Compares what the script lets through and tells with the model. Gives the shortest sequence that differs. */
export async function compareLimits(redis: Redis, run: Run): Promise<string | undefined> {
  const scripts = await loadScripts(redis);
  const doAll = async (sequence: Sequence) => {
    // Their amounts change on the way.
    const { ofKey, ofRecord } = structuredClone(sequence);
    const one = recordOfProduct(redis, scripts);
    const limits = [...ofKey, ...ofRecord].map((limit) => new ModelLimit(limit));
    const declare = () => one.setLimits(ofKey, ofRecord);
    // What was let through, the last one first.
    let taken: Taken[] = [];
    let calls = 0;
    let now = Temporal.Instant.from(sequence.from).epochNanoseconds / 1_000n;
    try {
      await declare();
      for (const command of sequence.commands.flatMap((one) => (one.do === 'verify' ? [one] : [one, AFTER_CHANGE]))) {
        const limit = 'of' in command ? limits[command.of] : undefined;
        if (command.do === 'amount' && limit) {
          limit.setAmount(command.amount);
          // Redis hears of the amount with the next call that it lets through.
          taken = [];
          await declare();
        }
        if (command.do === 'cancel') {
          const call = taken[command.of];
          if (!call) continue;
          await setMicros(redis, now);
          for (const [i, noted] of call.isCancelled ? [] : call.noted.entries()) limits[i]!.giveBack(noted, now);
          call.isCancelled = true;
          assert.is(await one.cancel(call.once), `OK ${call.micros}`);
          continue;
        }
        if (command.do !== 'verify') {
          now = timeAfter(command, limit, limits, now);
          continue;
        }
        await setMicros(redis, now);
        const asked = (command.twice ? [command, command] : [command]).map((call) => ({
          ...call,
          once: `call-${calls++}`,
        }));
        const wanted = asked.map((call) => {
          const noted = limits.map((limit) => limit.note(limit.amountOf(call), now));
          const answer = expected(limits, call, now);
          if (answer.status === 'VALID') taken.unshift({ ...call, noted, isCancelled: false });
          return answer;
        });
        const answers = await one.verify(...asked.map(({ micros, usageName, once }) => ({ micros, usageName, once })));
        if (limits.length > 0) assert.equal(answers.map(shown), wanted);
      }
    } finally {
      await one.remove();
    }
  };
  const property = fc.asyncProperty(sequences(run.most ?? 50), doAll);
  return fc.defaultReportMessage(await fc.check(property, { numRuns: run.sequences, seed: run.seed }));
}

/** A call that was let through, and what it took of each limit. */
type Taken = { once: string; micros: number; noted: Noted[]; isCancelled: boolean };

/** What the clock says after a command, in µs. */
function timeAfter(
  command: Exclude<Command, Call | { do: 'cancel' }>,
  limit: ModelLimit | undefined,
  limits: ModelLimit[],
  now: bigint,
): bigint {
  switch (command.do) {
    case 'wait':
      return now + command.micros;
    case 'back':
      return [now - BigInt(command.ms) * 1_000n, ...limits.map((one) => one.startOf(now))].reduce((a, b) =>
        a > b ? a : b,
      );
    case 'turn': {
      const window = limit && windowOf(limit.setting.per);
      if (!window || 'ms' in window) return now;
      const { timezone = 'UTC' } = limit.setting;
      return BigInt(windowAt(window.unit, timezone, msOf(now), window.count).endMs + command.byMs) * 1_000n;
    }
    case 'amount':
      return now;
  }
}

/** What the script must answer to a call, by the model, which takes it. */
function expected(limits: ModelLimit[], call: Call, now: bigint) {
  const refuses = (unit: string, shadow: boolean) =>
    limits.findIndex(
      (one) => one.setting.unit === unit && !!one.setting.shadow === shadow && !one.fits(one.amountOf(call), now),
    );
  const wouldRefuse = limits.map(({ setting }, i) =>
    setting.shadow ? !limits[i]!.fits(limits[i]!.amountOf(call), now) : undefined,
  );
  const by = [refuses('requests', false), refuses('credits', false)];
  const status = by[0]! >= 0 ? 'RATE_LIMITED' : by[1]! >= 0 ? 'USAGE_LIMITED' : 'VALID';
  const limitedBy = by.find((place) => place >= 0);
  if (status === 'VALID') for (const one of limits) one.take(one.amountOf(call), now);
  const remaining = limits.map((one) => one.remaining(now));
  return { status, limitedBy: limitedBy === undefined ? '' : String(limitedBy + 1), remaining, wouldRefuse };
}

/** What an answer tells of limits, as the model has it. */
export function shown({ status, limitedBy, states }: Answered) {
  const remaining = states.map((state) => state.remaining);
  return { status, limitedBy, remaining, wouldRefuse: states.map((state) => state.wouldRefuse) };
}
