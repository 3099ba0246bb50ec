import { makeMarkChangedDays } from '../../apps/consumer/changed-days.ts';
import { makeDelivery, stepsOf, type DeliverOptions, type Steps } from '../../apps/consumer/consume.ts';
import { makeFillCustomers } from '../../apps/consumer/fill-customers.ts';
import { insertEvents } from '../../apps/consumer/insert-events.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import { makeOutboxReader } from '../../shared/events/outbox-reader.ts';
import { outboxState } from '../../shared/events/outbox-watch.ts';
import { storeWatermark } from '../../shared/events/watermark.ts';
import { systemClock as clock, type Clock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import type { DiskMark } from '../../shared/stores/disk-mark.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';

type Stores = { sql: Sql; redis: ShardedRedis; books: Books };

/** What fails is tried again without a pause. */
export const impatient: Clock = { ...clock, sleep: async () => {} };
const never = new AbortController().signal;
const log = makeLogger('test', 'silent');
const END_OF_TIME = 9_000_000_000_000_000;

/** Of a Redis that is thrown away after the tests, nothing has to be on a disk. */
export const anyDisk: DiskMark = { look: async () => {}, has: () => true, written: () => '', restart: () => {} };

/** Steps of a consumer, at one of which it dies. */
export function dyingAt({ events, outcomes }: Steps, step: string): Steps {
  const work = async () => Promise.reject(new Error('it died'));
  const dying = <One extends Steps['events'][number] | Steps['outcomes'][number]>(one: One) =>
    one.what === step ? { ...one, work } : one;
  return { events: events.map(dying), outcomes: outcomes.map(dying) };
}

/**
 * Does what a consumer does with all that waits in the outboxes, where none runs; no event is on its way to the books then. At the step
 * `diesAt` it dies: it throws, and what was read stays unacknowledged.
 */
export async function carryAll(stores: Stores, chosen: Partial<DeliverOptions> = {}, diesAt?: string): Promise<void> {
  const { sql, redis } = stores;
  const { metrics = makeMetrics('test') } = chosen;
  const options = { ...stores, now: redis.now, metrics, log, clock: impatient, ...chosen };
  const steps = stepsOf(options);
  const { deliver, deliverOutcomes } = makeDelivery(options, diesAt === undefined ? steps : dyingAt(steps, diesAt));
  // What fails is then not done again.
  const signal = diesAt === undefined ? never : AbortSignal.abort();
  while ((await outboxState(redis)).events > 0) {
    // A new one each time: it does not pause between two batches.
    const reader = makeOutboxReader({
      node: redis.node(0),
      shards: [...ALL_SHARDS],
      name: 'test',
      metrics,
      log,
      disk: anyDisk,
    });
    const batch = await reader.read(never);
    if (!batch) continue;
    if (batch.events.length > 0) await deliver(batch.events, signal);
    if (batch.outcomes.length > 0) await deliverOutcomes(batch.outcomes, signal);
    await batch.acknowledge();
  }
  await storeWatermark(sql, END_OF_TIME);
}

/** Inserts events and marks their days, as a consumer does with a batch at that time; in the workspaces that Postgres has for them. */
export async function bookEvents(
  { sql, books }: Omit<Stores, 'redis'>,
  nowMs: number,
  events: UsageEvent[],
): Promise<void> {
  const ids = [...new Set(events.flatMap(({ keyId, billingId }) => [keyId, billingId]))];
  const rows = await sql<{ id: string; workspaceId: string }[]>`
    select id, workspace_id from api_keys where id = any(${ids})
    union all select id, workspace_id from billing_records where id = any(${ids})`;
  const known = new Map(rows.map(({ id, workspaceId }) => [id, workspaceId]));
  const booked = events.map((event) => ({
    ...event,
    workspaceId: known.get(event.keyId) ?? known.get(event.billingId) ?? event.workspaceId,
  }));
  await makeFillCustomers(sql, clock)(booked);
  await insertEvents(books, booked, clock);
  await makeMarkChangedDays(sql, clock)(booked, nowMs);
}
