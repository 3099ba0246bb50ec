import * as fc from 'fast-check';
import type { Redis } from 'ioredis';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import { windowOf } from '../../shared/stores/limits.ts';
import { windowAt } from '../../shared/values/calendar.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { doing } from './commands.ts';
import { ModelLimit, msOf, type HeldCall, type Noted } from './limits.ts';
import { recordOfProduct, type Answered } from './product-scripts.ts';
import { setMicros } from './test-shard.ts';

// Limits in the scripts that verify, cancel and capture, on a real Redis, against the model of limits.ts: of all windows, at any instant.

type Call = {
  micros: number;
  usageName: string;
  /** So many more that are alike. */
  more: number;
  hold?: { forMs: number; onExpiry: 'release' | 'charge' } | undefined;
};
type Command =
  | { do: 'verify'; calls: Call[] }
  | { do: 'wait'; micros: bigint }
  | { do: 'moment'; of: number; byMs: number }
  | { do: 'back'; ms: number }
  | { do: 'amount'; of: number; amount: number }
  | { do: 'cancel'; of: number }
  /** Captures a part of a hold, or releases it. */
  | { do: 'settle'; of: number; part: number | undefined };

const LATE_MS = 86_400_000;
// Whatever changes is looked at by the next call.
const AFTER_CHANGE: Command = { do: 'verify', calls: [{ micros: 100_001, usageName: 'a', more: 0 }] };

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
    const slides = 'ms' in windowOf(per);
    const limit = { unit, per, limit: unit === 'requests' ? amount : formatCredits(amount * 333_333) };
    return { ...limit, ...(!slides && { timezone }), ...(usageName && { usageName }), ...(shadow && { shadow }) };
  });
const listOf = (maxLength: number) =>
  fc.array(limitOf, { maxLength }).map((limits) => limits.map((limit, i) => ({ name: `limit ${i}`, ...limit })));
const holdOf = fc.record({
  forMs: fc.constantFrom(1_000, 60_000, 7_200_000),
  onExpiry: fc.constantFrom('release' as const, 'charge' as const),
});
const callsOf = (hold: fc.Arbitrary<Call['hold']>) => {
  const one = {
    micros: fc.integer({ min: 0, max: 2_000_000 }),
    usageName: fc.constantFrom('a', 'b', 'c'),
    more: fc.constantFrom(0, 0, 2),
    hold,
  };
  return doing(6, 'verify', { calls: fc.array(fc.record(one), { minLength: 1, maxLength: 3 }) });
};
const ofTime = [
  doing(2, 'wait', { micros: fc.bigInt(0n, 900_000n) }),
  doing(2, 'wait', { micros: fc.bigInt(0n, 4_000_000_000n) }),
  doing(2, 'moment', { of: fc.nat(7), byMs: fc.constantFrom(-1, 0, 1) }),
  doing(2, 'cancel', { of: fc.nat(5) }),
] as const;
const withoutHolds: fc.Arbitrary<Command> = fc.oneof(
  callsOf(fc.constant(undefined)),
  ...ofTime,
  doing(1, 'back', { ms: fc.integer({ min: 1, max: 5_000 }) }),
  doing(1, 'amount', { of: fc.nat(7), amount: fc.integer({ min: 1, max: 20 }) }),
);
const withHolds: fc.Arbitrary<Command> = fc.oneof(
  callsOf(fc.option(holdOf, { nil: undefined })),
  ...ofTime,
  doing(4, 'settle', { of: fc.nat(3), part: fc.constantFrom(0, 0.5, 1, 1.5, undefined) }),
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
    commands: fc.oneof(
      ...[withoutHolds, withHolds].map((one) => fc.array(one, { minLength: 1, maxLength: most, size: 'max' })),
    ),
  });
type Sequence = { ofKey: Limit[]; ofRecord: Limit[]; from: string; commands: Command[] };

/** That the scripts let through and tell what the model does. */
export function limitsHold(redis: Redis, most: number): fc.IAsyncProperty<[Sequence]> {
  const doAll = async (sequence: Sequence) => {
    // Their amounts change on the way.
    const { ofKey, ofRecord } = structuredClone(sequence);
    const one = recordOfProduct(redis);
    const limits = [...ofKey, ...ofRecord].map((limit) => new ModelLimit(limit));
    const holds: Hold[] = [];
    // What was let through, the last one first.
    let taken: Taken[] = [];
    let calls = 0;
    let now = Temporal.Instant.from(sequence.from).epochNanoseconds / 1_000n;

    function settle(hold: Hold, used: number): void {
      for (const limit of limits) limit.settle(hold, used, now);
      Object.assign(hold, { billed: used, isOpen: false });
    }
    /** The script first does what is due. */
    async function moment(): Promise<void> {
      await setMicros(redis, now);
      const due = holds.filter(({ isOpen, endsAtMs }) => isOpen && endsAtMs <= msOf(now));
      for (const hold of due.toSorted((a, b) => a.endsAtMs - b.endsAtMs || (a.id < b.id ? -1 : 1)))
        settle(hold, hold.onExpiry === 'charge' ? hold.micros : 0);
    }
    async function verify(asked: Call[]): Promise<void> {
      await moment();
      // What cannot be cancelled has no name.
      const named = asked.flatMap(({ more, ...call }) => [
        { call, once: `call-${calls++}` },
        ...Array.from({ length: call.hold ? 0 : more }, () => ({ call, once: '' })),
      ]);
      const wanted = named.map(({ call, once }) => {
        const noted = limits.map((limit) => limit.note(limit.amountOf(call), now));
        const answer = expected(limits, call, now);
        if (answer.status === 'VALID' && !call.hold && once !== '')
          taken.unshift({ micros: call.micros, once, noted, isCancelled: false });
        return answer;
      });
      const answers = await one.verify(
        ...named.map(({ call: { hold, ...call }, once }) => ({ ...call, once, ...(hold && { ...hold, name: once }) })),
      );
      if (limits.length > 0) assert.equal(answers.map(shown), wanted);
      for (const { call, once } of named) {
        const told = one.holdOf(once);
        if (!call.hold || !told) continue;
        const { micros, usageName, hold } = call;
        const endsAtMs = Number(told.endsAtMs);
        holds.push({
          micros,
          usageName,
          ...hold,
          once,
          id: told.id,
          heldAt: now,
          endsAtMs,
          billed: micros,
          isOpen: true,
        });
      }
    }
    async function cancel(call: Taken | undefined): Promise<void> {
      if (!call) return;
      await moment();
      for (const [i, noted] of call.isCancelled ? [] : call.noted.entries()) limits[i]!.giveBack(noted, now);
      call.isCancelled = true;
      assert.is(await one.cancel(call.once), `OK ${call.micros}`);
    }
    async function settleByCall(hold: Hold | undefined, part: number | undefined): Promise<void> {
      if (!hold) return;
      await moment();
      holds.splice(holds.indexOf(hold), 1);
      const used = Math.floor(hold.micros * (part ?? 0));
      const answer = await one.settleHold(part === undefined ? 'release' : 'capture', hold.once, used);
      const isTooLate = part !== undefined && msOf(now) >= hold.endsAtMs + LATE_MS;
      const wasCharged = part === undefined && hold.onExpiry === 'charge';
      assert.is(answer, hold.isOpen || !(isTooLate || wasCharged) ? 'DONE' : isTooLate ? 'UNKNOWN' : 'CONFLICT');
      if (answer === 'DONE') settle(hold, used);
    }

    try {
      await one.setLimits(ofKey, ofRecord);
      for (const command of sequence.commands.flatMap((one) => (one.do === 'verify' ? [one] : [one, AFTER_CHANGE]))) {
        const limit = 'of' in command ? limits[command.of] : undefined;
        if (command.do === 'amount' && limit) {
          limit.setAmount(command.amount);
          // Redis hears of the amount with the next call that it lets through.
          taken = [];
          await one.setLimits(ofKey, ofRecord);
        }
        if (command.do === 'verify') await verify(command.calls);
        else if (command.do === 'cancel') await cancel(taken[command.of]);
        else if (command.do === 'settle') await settleByCall(holds[command.of], command.part);
        else now = timeAfter(command, limit, limits, now);
      }
    } finally {
      await one.remove();
    }
  };
  return fc.asyncProperty(sequences(most), doAll);
}

/** A call that was let through, and what it took of each limit. */
type Taken = { once: string; micros: number; noted: Noted[]; isCancelled: boolean };
/** One that holds, which ends by itself at the first call after its end; `billed`: what limits count of it. */
type Hold = HeldCall & { once: string; id: string; onExpiry: 'release' | 'charge'; endsAtMs: number; isOpen: boolean };

/** What the clock says after a command, in µs. */
function timeAfter(
  command: Extract<Command, { do: 'wait' | 'back' | 'moment' | 'amount' }>,
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
    case 'moment': {
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
function expected(limits: ModelLimit[], call: Omit<Call, 'more'>, now: bigint) {
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
