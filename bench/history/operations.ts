import { setTimeout as sleep } from 'node:timers/promises';
import { encodeEvent, EVENT_FIELD } from '../../shared/events/event.ts';
import { usageDayColumns } from '../../shared/stores/usage-days.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { deleteEvent, insertEvent } from './fill.ts';
import type { HistoryWorld } from './world.ts';

/** Something that is done to a long history, and must end within a time. */
export type Operation = {
  name: string;
  withinSeconds: number;
  /** What has to be so before, in its own time. */
  prepare?(world: HistoryWorld, signal: AbortSignal): Promise<void>;
  /** Does it, and settles when it is over; throws when something is not exact then, or once the signal says so. */
  work(world: HistoryWorld, signal: AbortSignal): Promise<void>;
};

/** How many late events come, and what each costs. */
export const LATE_EVENTS = 15_000;
const LATE_COST = 7;
const LATE_OF_CLOSED_DAY = LATE_EVENTS / 3;
const WITHIN_SECONDS = 10;
const LOOK_EVERY_MS = 50;
const APPENDED_AT_ONCE = 5_000;

/** The operations on one record that lose nothing, in their order: each leaves the record exact for the next. */
export const operations: Operation[] = [
  {
    name: 'make rebuild',
    withinSeconds: WITHIN_SECONDS,
    async work(world, signal) {
      const { code, output } = await world.command('rebuild', signal);
      if (code !== 0) throw new Error(`rebuild ended with ${code}: ${output.trim()}`);
      await untilUsed(world, world.plan.usedMicros, signal);
    },
  },
  {
    name: `${LATE_EVENTS.toLocaleString('en')} late events`,
    withinSeconds: WITHIN_SECONDS,
    async work(world, signal) {
      await appendLateEvents(world);
      await untilUsed(world, usedWithLate(world), signal);
    },
  },
  {
    name: 'its reconciliation',
    withinSeconds: WITHIN_SECONDS,
    work: async (world, signal) => requireExact(await reconciliation(world, signal), usedWithLate(world)),
  },
  {
    name: 'make reconcile',
    withinSeconds: WITHIN_SECONDS,
    async work(world, signal) {
      const { code, output } = await world.command('reconcile', signal);
      if (code !== 0) throw new Error(`reconcile ended with ${code}: ${output.trim().slice(-2_000)}`);
    },
  },
];

/** Redis is emptied: what the books have comes back, and nothing else. */
export const emptiedRedis: Operation = {
  name: 'an emptied Redis',
  withinSeconds: WITHIN_SECONDS,
  async work(world, signal) {
    world.others.lost();
    await world.redis.admin.flushall('ASYNC');
    await untilUsed(world, usedWithLate(world), signal);
  },
};

/** Two events that are deleted from the books: one of a day that is over, one of today. */
function deletedEvents({ plan }: HistoryWorld): number[] {
  return [Math.floor(plan.events * 0.505), plan.events - 1 - Math.floor(plan.events / plan.days.length / 2)];
}

/** The search for events that are missing in the books. */
export const search: Operation = {
  name: 'the search for a missing number',
  withinSeconds: WITHIN_SECONDS,
  async prepare(world) {
    for (const index of deletedEvents(world)) await deleteEvent(world, index);
  },
  async work(world, signal) {
    const found = await reconciliation(world, signal);
    const missing = [...found.gaps, ...found.losses]
      // What verified the record in the meantime may be lost: it cost nothing.
      .filter(({ after }) => after.epoch <= world.plan.epochs)
      .map(({ after, events }) => `${after.epoch}/${after.number + 1}${events === 1 ? '' : ` and ${events - 1} more`}`);
    const deleted = deletedEvents(world).map((index) => {
      const { epoch, sequence } = world.plan.place(index);
      return `${epoch}/${sequence}`;
    });
    if (missing.toSorted().join() !== deleted.toSorted().join())
      throw new Error(`${deleted.join(', ')} are missing, and it names ${missing.join(', ') || 'none'}`);
  },
};

/** The events that were missing are back. */
export const foundAgain: Operation = {
  name: 'exact again',
  withinSeconds: Infinity,
  async prepare(world) {
    for (const index of deletedEvents(world)) await insertEvent(world, index);
  },
  work: requireExactRecord,
};

/** What the service says of the record at the end: usage, used credits and books are equal to the last micro-credit. */
export async function requireExactRecord(world: HistoryWorld, signal: AbortSignal): Promise<void> {
  const micros = usedWithLate(world);
  requireExact(await reconciliation(world, signal), micros);
  const { data } = (await ask(world, `/api/v1/usage/${world.big.id}`, signal)) as {
    data: { totalBillingUsage: string; billingUsageName: string }[];
  };
  const inUsage = data.reduce((sum, row) => sum + Math.round(Number(row.totalBillingUsage) * 1e6), 0);
  if (inUsage !== micros) throw new Error(`/usage bills ${formatCredits(inUsage)} of ${formatCredits(micros)}`);
}

/** The sums of a day that /usage bills are not those of its events: reconciling must never say EXACT then. */
export const wrongSums: Operation = {
  name: 'sums that are wrong are told',
  withinSeconds: WITHIN_SECONDS,
  prepare: ({ setup, plan, big }) =>
    setup
      .command({
        query: `insert into usage_days (${usageDayColumns})
                select * replace (cost_micros + 1000000 as cost_micros, events + 1 as events, all_events + 1 as all_events)
                from usage_days final
                where billing_id = {id:String} and day = {day:Date} and usage_name = 'tokens'`,
        query_params: { id: big.id, day: plan.days[1] },
      })
      .then(() => {}),
  async work(world, signal) {
    const found = await reconciliation(world, signal);
    if (found.status === 'EXACT') throw new Error('/usage bills a credit more than was used, and it says EXACT');
  },
};

function usedWithLate({ plan }: HistoryWorld): number {
  return plan.usedMicros + LATE_EVENTS * LATE_COST;
}

/** Waits until a verification of the record's key is VALID and shows these used credits. */
async function untilUsed({ customers, big }: HistoryWorld, micros: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const { status, body } = await customers.verify({ key: big.key }).catch(() => ({ status: 0, body: {} }));
    if (status === 200 && body.status === 'VALID' && body.billing.usedCredits === formatCredits(micros)) return;
    await sleep(LOOK_EVERY_MS);
  }
}

/**
 * Appends late events to the outbox, as a relay would bring them that held them while Redis was lost: a third of them ends
 * an epoch of a day that is over, the others end the last epoch.
 */
async function appendLateEvents({ redis, plan, big, workspaceId }: HistoryWorld): Promise<void> {
  const { epochs } = plan;
  const ends = [epochs - 1, epochs].map((epoch) => {
    const place = plan.place(Math.ceil((epoch * plan.events) / epochs) - 1);
    if (place.epoch !== epoch || place.sequence !== plan.lastOf(epoch)) throw new Error('the plan contradicts itself');
    return place;
  });
  for (let done = 0; done < LATE_EVENTS; done += APPENDED_AT_ONCE) {
    const pipeline = redis.admin.pipeline();
    for (let i = done; i < Math.min(LATE_EVENTS, done + APPENDED_AT_ONCE); i++) {
      const closed = i < LATE_OF_CLOSED_DAY;
      const end = ends[closed ? 0 : 1]!;
      const number = i + 1 - (closed ? 0 : LATE_OF_CLOSED_DAY);
      const event = testEvent({
        keyId: big.keyId,
        billingId: big.id,
        workspaceId,
        usageName: 'tokens',
        timeMs: end.timeMs,
        costMicros: LATE_COST,
        usedMicros: end.usedMicros + LATE_COST * number,
        epoch: end.epoch,
        sequence: end.sequence + number,
      });
      pipeline.xadd(keyspace.outbox(big.shard), '*', EVENT_FIELD, encodeEvent(event));
    }
    for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
  }
}

type Gap = { after: { epoch: number; number: number }; events: number; credits?: string };
type Found = { status: string; usedCredits: string; bookedCredits: string; gaps: Gap[]; losses: Gap[] };

async function reconciliation(world: HistoryWorld, signal: AbortSignal): Promise<Found> {
  const { reconciliation: found } = await ask(world, `/api/v1/customer-billing/${world.big.id}/reconciliation`, signal);
  return found as Found;
}

function requireExact(found: Found, micros: number): void {
  const { status, usedCredits, bookedCredits } = found;
  const wanted = formatCredits(micros);
  if (status !== 'EXACT' || usedCredits !== wanted || bookedCredits !== wanted)
    throw new Error(`${wanted} are used, and its reconciliation says ${JSON.stringify(found)}`);
}

/** Asks the api, again and again while it can't answer. */
async function ask({ world }: HistoryWorld, path: string, signal: AbortSignal): Promise<Record<string, unknown>> {
  for (;;) {
    const { status, body, text } = await world.call('get', path);
    if (status === 200) return body;
    if (status !== 503) throw new Error(`${path} answered ${status} ${text}`);
    signal.throwIfAborted();
    await sleep(LOOK_EVERY_MS);
  }
}
