// Planning and sending together, wherever either dies: what external meters took is what was used.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { proveMeter } from '../../shared/books/meters/proof.ts';
import { allowWorkspace } from '../../shared/books/usage/allowed-workspace.ts';
import { formatCredits, parseSignedCredits } from '../../shared/values/credits.ts';
import { HOUR_MS, meterKinds, type MeterKind } from '../../shared/values/meter-kinds.ts';
import { doing } from '../../tests/accounts/commands.ts';
import type { MeterRow } from '../api/resources/meters.ts';
import { makeMeterStage, START_MS, TODAY_MS, type Answering } from './helpers/meter-stage.ts';

const { stores, sql, plan, reach, book, newWorkspace, newDestination, dyingAt } = await makeMeterStage();

const hour = fc.nat({ max: 71 });
const of = fc.nat({ max: 1 });
const answers = fc.constantFrom<Answering>('well', 'lost answer', 'no answer', '429', '500');
const step = fc.oneof(
  doing(4, 'use', { of, hour, micros: fc.integer({ min: 0, max: 5_000_000 }), name: fc.constantFrom('', 'tokens') }),
  doing(1, 'adjust', { of, hour, micros: fc.integer({ min: -3_000_000, max: 3_000_000 }) }),
  doing(2, 'reach', { hour: fc.nat({ max: 96 }) }),
  doing(3, 'plan', { diesAt: fc.option(fc.nat({ max: 60 })) }),
  doing(3, 'send', {
    to: fc.nat({ max: 4 }),
    diesAt: fc.option(fc.nat({ max: 4 })),
    answering: fc.array(answers, { minLength: 1, maxLength: 4 }),
  }),
);
type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;
type Made = Awaited<ReturnType<typeof newDestination>>;

test('whatever is booked late, adjusted, lost or cut off, each identity is taken once, and sums are exact to the last decimal', async () => {
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), run), {
    numRuns: 4,
    seed: 43,
    endOnFailure: true,
  });
});

async function run(steps: Step[]): Promise<void> {
  const { id, billingIds } = await newWorkspace();
  const destinations: Made[] = [];
  for (const kind of Object.keys(meterKinds) as MeterKind[])
    destinations.push(await newDestination(id, kind, kind === 'lago' ? { batchSize: 3 } : {}));
  let [used, events, adjustments] = [0, 0, 0];
  await reach(START_MS);
  for (const one of steps) {
    const over = 'diesAt' in one && one.diesAt !== null ? dyingAt(one.diesAt) : sql;
    if (one.do === 'use' || one.do === 'adjust') {
      used += one.micros;
      events += Number(one.do === 'use');
      const line =
        one.do === 'use' ? { usageName: one.name } : { kind: 'adjustment' as const, keyId: '', number: ++adjustments };
      await book(billingIds[one.of]!, START_MS + one.hour * HOUR_MS + 60_000, one.micros, line);
    } else if (one.do === 'reach') await reach(START_MS + one.hour * HOUR_MS);
    else if (one.do === 'plan') await plan(over).catch(onlyDeath);
    else {
      let calls = 0;
      const answering = () => one.answering[calls++ % one.answering.length]!;
      await destinations[one.to]!.send(answering, over).catch(onlyDeath);
    }
  }
  await reach(TODAY_MS);
  await plan();
  for (const destination of destinations) {
    await destination.sendAll();
    await prove(destination, used, events);
  }
}

async function prove({ id, kind, workspaceId, receiver, states }: Made, used: number, events: number): Promise<void> {
  const { WAITING: waiting = 0, FAILED: failed = 0, SENT: sent = 0 } = await states();
  const taken = [...receiver.taken.values()];
  assert.equal([kind, waiting, failed, taken.length], [kind, 0, 0, sent]);
  const [row] = await sql<[MeterRow]>`select * from meter_destinations where id = ${id}`;
  const workspace = allowWorkspace(workspaceId);
  // Each month that has usage.
  for (const month of new Set([START_MS, TODAY_MS].map((ms) => new Date(ms).toISOString().slice(0, 7)))) {
    const { status, difference } = await proveMeter(stores, row, { month, workspace, nowMs: Date.now() });
    assert.equal([kind, status, difference], [kind, 'EXACT', 0n]);
  }
  const [{ rests }] = await sql<[{ rests: number }]>`
    select coalesce(sum(micros), 0)::bigint as rests from meter_rests where destination_id = ${id}`;
  const told = taken.reduce((sum, { value }) => sum + parseSignedCredits(value)!, rests);
  assert.equal([kind, formatCredits(told)], [kind, formatCredits(used)]);
  const counted = taken.reduce((sum, one) => sum + (one.events ?? 0), 0);
  if (kind !== 'stripe') assert.equal([kind, counted], [kind, events]);
}

function onlyDeath(error: Error): void {
  if (!/it died|planning failed/.test(error.message)) throw error;
}
