import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { ModelLimit, msOf } from './limits.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { setMicros, SHARD } from './test-shard.ts';

// Holds on a key and a record with limits on credits, in the scripts that verify and capture, against the model of limits.ts.

const LATE_MS = 86_400_000;
const NOON = 1_900_000_800_000_000n;

const { client } = (await connectTestRedis()).node(SHARD);
const scripts = await loadScripts(client);

type Call = { micros: number; usageName: string; hold: { forMs: number; onExpiry: 'release' | 'charge' } | undefined };
type Command =
  | { do: 'calls'; calls: Call[] }
  | { do: 'wait'; ms: number }
  | { do: 'capture'; of: number; part: number }
  | { do: 'release'; of: number };

type Hold = { call: Call; id: string; heldAt: bigint; endsAtMs: number; billed: number; isOpen: boolean; name: string };

/** Holds of the model, which end by themselves at the first call after their end. */
class ModelHolds {
  readonly all: Hold[] = [];
  private readonly limits: readonly ModelLimit[];

  constructor(limits: readonly ModelLimit[]) {
    this.limits = limits;
  }

  settle(hold: Hold, used: number, now: bigint): void {
    for (const one of this.limits) if (one.amountOf(hold.call) > 0n) one.correct(hold.billed, used, hold.heldAt, now);
    [hold.billed, hold.isOpen] = [used, false];
  }

  turn(now: bigint): void {
    const due = this.all.filter(({ isOpen, endsAtMs }) => isOpen && endsAtMs <= msOf(now));
    for (const hold of due.toSorted((a, b) => a.endsAtMs - b.endsAtMs || (a.id < b.id ? -1 : 1)))
      this.settle(hold, hold.call.hold!.onExpiry === 'charge' ? hold.call.micros : 0, now);
  }
}

const limitOf = fc.record(
  {
    unit: fc.constant('credits' as const),
    limit: fc.integer({ min: 1, max: 5_000_000 }).map((micros) => formatCredits(micros)),
    per: fc.constantFrom('second', 'minute', '5 minutes', 'hour', '10 hours', 'day', 'month', 'year'),
    usageName: fc.constantFrom('a', 'b'),
    shadow: fc.constant(true),
  },
  { requiredKeys: ['unit', 'limit', 'per'] },
);
const listOf = (maxLength: number) =>
  fc.array(limitOf, { maxLength }).map((limits) => limits.map((limit, i) => ({ name: `limit ${i}`, ...limit })));
const callOf = fc.record({
  micros: fc.integer({ min: 0, max: 2_000_000 }),
  usageName: fc.constantFrom('a', 'b'),
  hold: fc.option(
    fc.record({
      forMs: fc.constantFrom(1_000, 60_000, 7_200_000),
      onExpiry: fc.constantFrom('release' as const, 'charge' as const),
    }),
    { nil: undefined },
  ),
});
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('calls' as const),
      calls: fc.array(callOf, { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.oneof(fc.nat(900), fc.nat(70_000), fc.nat(30_000_000)),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('capture' as const),
      of: fc.nat(3),
      part: fc.constantFrom(0, 0.5, 1, 1.5),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('release' as const), of: fc.nat(3) }) },
);

test('holds count in limits from the hold on, and what settles them corrects that, as in the model: by captures, releases, ends and late captures, in batches', async () => {
  const run = async (ofKey: Limit[], ofRecord: Limit[], commands: Command[]) => {
    const one = recordOfProduct(client, scripts);
    const limits = [...ofKey, ...ofRecord].map((limit) => new ModelLimit(limit));
    const holds = new ModelHolds(limits);
    let now = NOON;
    let named = 0;
    const ask = async (calls: readonly Call[]) => {
      await setMicros(client, now);
      holds.turn(now);
      const names = calls.map(() => `hold-${(named += 1)}`);
      const answers = await one.verify(
        ...calls.map(({ hold, ...call }, i) => (hold ? { ...call, ...hold, name: names[i]! } : call)),
      );
      for (const [i, call] of calls.entries()) {
        const isRefused = limits.some((one) => !one.setting.shadow && !one.fits(one.amountOf(call), now));
        if (!isRefused) for (const one of limits) one.take(one.amountOf(call), now);
        const { status, states } = answers[i]!;
        assert.is(status, isRefused ? 'USAGE_LIMITED' : 'VALID');
        assert.equal(
          states.map(({ remaining }) => remaining),
          limits.map((limit) => limit.remaining(now)),
        );
        const held = one.holdOf(names[i]!);
        if (!held) continue;
        const hold = { call, id: held.id, heldAt: now, billed: call.micros, isOpen: true, name: names[i]! };
        holds.all.push({ ...hold, endsAtMs: Number(held.endsAtMs) });
      }
    };
    try {
      await one.setLimits(ofKey, ofRecord);
      for (const command of commands) {
        if (command.do === 'wait') now += BigInt(command.ms) * 1_000n;
        else if (command.do === 'calls') await ask(command.calls);
        else if (holds.all[command.of]) {
          await setMicros(client, now);
          holds.turn(now);
          const [hold] = holds.all.splice(command.of, 1) as [Hold];
          const used = command.do === 'capture' ? Math.floor(hold.call.micros * command.part) : 0;
          const status = await one.settleHold(command.do, hold.name, used);
          const tooLate = !hold.isOpen && command.do === 'capture' && msOf(now) >= hold.endsAtMs + LATE_MS;
          const wasCharged = !hold.isOpen && command.do === 'release' && hold.call.hold!.onExpiry === 'charge';
          assert.is(status, tooLate ? 'UNKNOWN' : wasCharged ? 'CONFLICT' : 'DONE');
          if (status === 'DONE') holds.settle(hold, used, now);
        }
        await ask([{ micros: 0, usageName: 'a', hold: undefined }]);
      }
    } finally {
      await one.remove();
    }
  };
  const sequence = fc.array(command, { minLength: 1, maxLength: 25 });
  const result = await fc.check(fc.asyncProperty(listOf(3), listOf(2), sequence, run), {
    numRuns: 80,
    seed: 1,
  });
  assert.not(result.failed, fc.defaultReportMessage(result) ?? '');
});

test('a capture of more than its hold counts that in limits whose counters have fallen to nothing and are gone', async () => {
  const one = recordOfProduct(client, scripts);
  const limits = ['first', 'second'].map((name): Limit => ({ name, unit: 'credits', limit: '10', per: 'hour' }));
  await one.setLimits(limits, []);
  await setMicros(client, NOON);
  await one.verify({ name: 'first', micros: 1_000_000, forMs: 80_000_000, onExpiry: 'release' });
  await setMicros(client, NOON + 7_200_000_000n);
  await client.del(...one.counters);
  assert.is(await one.settleHold('capture', 'first', 5_000_000), 'DONE');
  const [{ states } = { states: [] }] = await one.verify(0);
  assert.equal(
    states.map(({ remaining }) => remaining),
    ['6', '6'],
  );
  assert.ok((await client.pttl(one.counters[0]!)) > 3_600_000);
  await one.remove();
});

test('an alert on a limit has one name in its window, whichever call or capture comes over its line again', async () => {
  const one = recordOfProduct(client, scripts);
  const limits: Limit[] = [
    { name: 'x', unit: 'requests', limit: 100, per: 'day' },
    { name: 'daily', unit: 'credits', limit: '10', per: 'day' },
  ];
  const alerts = [
    { name: 'low', kind: 'available' as const, value: 0 },
    { name: 'most', kind: 'limit' as const, value: 80, limit: 'daily' },
  ];
  const hold = { forMs: 80_000_000, onExpiry: 'release' as const };
  const crossings = () =>
    one.lines.splice(0).flatMap(({ kind, crossed }) => crossed.map(({ name, armed }) => `${kind}: ${name} ${armed}`));
  const armedAt = (day: string) => `most ${Temporal.Instant.from(`${day}T00:00:00Z`).epochMilliseconds}.80`;
  await one.setLimits([], limits, alerts);
  await setMicros(client, NOON);
  const today = armedAt(
    Temporal.Instant.fromEpochMilliseconds(Number(NOON / 1_000n))
      .toString()
      .slice(0, 10),
  );
  await one.verify({ ...hold, name: 'first', micros: 7_999_999 }, { ...hold, name: 'second', micros: 1 }, 1);
  assert.equal(crossings(), [`hold: ${today}`]);
  assert.is(await one.settleHold('capture', 'first', 1_000_000), 'DONE');
  assert.equal(crossings(), []);
  assert.is(await one.settleHold('capture', 'second', 8_000_000), 'DONE');
  assert.equal(crossings(), [`capture: ${today}`]);
  await setMicros(client, NOON + 86_400_000_000n);
  await one.verify(8_000_000);
  const [again = ''] = crossings();
  assert.match(again, /^verification: most \d+\.80$/);
  assert.is.not(again.split(': ')[1], today);
  await one.remove();
});
