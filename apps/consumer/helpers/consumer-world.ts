import { systemClock } from '../../../shared/runtime/clock.ts';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import { carryDecoded } from '../../../shared/events/carried-event.ts';
import { encodeEvent, EVENT_FIELD, type UsageEvent } from '../../../shared/events/event.ts';
import { makeOutboxReader } from '../../../shared/events/outbox-reader.ts';
import type { Source } from '../../../shared/events/source.ts';
import { newId } from '../../../shared/values/ids.ts';
import { ALL_SHARDS, shardOf, SHARDS } from '../../../shared/values/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../../shared/stores/keyspace.ts';
import { makeLogger, type Logger } from '../../../shared/runtime/log.ts';
import { makeMetrics, type Metrics } from '../../../shared/runtime/metrics.ts';
import type { Running } from '../../../shared/runtime/run.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { spawnWorld, type ProcessWorld } from '../../../tests/helpers/world.ts';
import { makeMarkChangedDays } from '../changed-days.ts';
import { startConsuming } from '../consume.ts';
import { makeFillOwners, type FillOwners } from '../fill-owners.ts';
import { makeFollowUps } from '../follow-ups.ts';
import { insertEvents } from '../insert-events.ts';
import { makeTellLimits } from '../tell-limits.ts';

/** A test file's own world, with what tests of the consumer do in its outbox and its books. */
export type ConsumerWorld = Awaited<ReturnType<typeof makeConsumerWorld>>;

/** The fields of an outbox event that a test chooses. */
type TestEntry = { id?: string; seq?: number };

type Servers = { world: ProcessWorld; redis: ShardedRedis; books: Books; metrics: Metrics; log: Logger };

export async function makeConsumerWorld() {
  const world = await spawnWorld([]);
  // These tests make things fail on purpose.
  const log = makeLogger('test', 'silent');
  const metrics = makeMetrics('test');
  const redis = connectRedis(world.env.REDIS_URL!, log, systemClock);
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  await redis.connected(60_000);
  const servers: Servers = { world, redis, books, metrics, log };
  return {
    ...servers,
    node: redis.node(0),
    ...outboxTools(servers),
    ...consumingTools(servers),
    ...booksTools(servers),
    async stop() {
      await Promise.all([redis.close(), books.close()]);
      await world.stop();
    },
  };
}

/** So many events of one record, by their sequence numbers. */
export function numbered(count: number): TestEntry[] {
  return Array.from({ length: count }, (_, i) => ({ seq: i + 1 }));
}

const KEY = newId('key');

function outboxTools({ redis }: Servers) {
  const node = redis.node(0);
  return {
    /** Appends events as verify.lua does, and gives their ids. */
    async append(billingId: string, entries: TestEntry[]): Promise<string[]> {
      const timeMs = await redis.now();
      const pipeline = node.client.pipeline();
      const ids = entries.map(({ id = newId('evt'), seq = 1 }) => {
        const event = testEvent({ id, timeMs, keyId: KEY, billingId, usedMicros: seq, sequence: seq, route: '/r' });
        pipeline.xadd(keyspace.outbox(shardOf(billingId)), '*', EVENT_FIELD, encodeEvent(event));
        return id;
      });
      for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
      return ids;
    },
    /** Appends events as verify.lua does with those of one script, and lines that are none after the first of them. */
    async appendTogether(billingId: string, entries: TestEntry[], others: string[] = []): Promise<void> {
      const timeMs = await redis.now();
      const lines = entries.map(({ id = newId('evt'), seq = 1 }) =>
        encodeEvent(testEvent({ id, timeMs, keyId: KEY, billingId, usedMicros: seq, sequence: seq })),
      );
      lines.splice(1, 0, ...others);
      const shard = shardOf(billingId);
      await node.client.xadd(keyspace.outbox(shard), '*', EVENT_FIELD, Buffer.from(lines.join('\n'), 'latin1'));
      await node.client.incrby(keyspace.more(shard), lines.length - 1);
    },
    /** Entries in all outboxes, and how many of them were delivered but not acknowledged. */
    async waiting(): Promise<{ entries: number; pending: number }> {
      const sum = { entries: 0, pending: 0 };
      for (let shard = 0; shard < SHARDS; shard++) {
        sum.entries += await node.client.xlen(keyspace.outbox(shard));
        const pending = await node.client.xpending(keyspace.outbox(shard), OUTBOX_GROUP).catch(() => [0]);
        sum.pending += pending[0] as number;
      }
      return sum;
    },
  };
}

function consumingTools({ world, redis, books, metrics, log }: Servers) {
  const node = redis.node(0);
  const consuming: Running[] = [];
  const reader = (name: string, claimIdleMs = 30_000, forgetIdleMs = 3_600_000): Source =>
    makeOutboxReader({ node, shards: [...ALL_SHARDS], name, metrics, log, claimIdleMs, forgetIdleMs });
  return {
    /** A reader of all outboxes, under a consumer's name. */
    reader,
    /** One whose batches are delivered and never acknowledged. */
    unacknowledged(name: string): Source {
      const source = reader(name);
      return {
        async read(signal) {
          const batch = await source.read(signal);
          return batch && { ...batch, acknowledge: () => Promise.reject(new Error('cut')) };
        },
      };
    },
    /** Carries events from a source to the books, in this process. */
    consume(source: Source, fillOwners: FillOwners = makeFillOwners(world.sql, log, systemClock)): Running {
      const { sql } = world;
      const markChangedDays = makeMarkChangedDays(sql, systemClock);
      const running = startConsuming({
        source,
        books,
        fillOwners,
        markChangedDays,
        followUps: makeFollowUps({ sql, redis }),
        tellLimits: makeTellLimits(sql, systemClock),
        now: redis.now,
        metrics,
        log,
        clock: systemClock,
      });
      consuming.push(running);
      return running;
    },
    /** Stops every consumer that `consume` started. */
    async stopConsuming(): Promise<void> {
      await Promise.all(consuming.splice(0).map((running) => running.stop()));
    },
  };
}

function booksTools({ world, books, log }: Servers) {
  const rows = async <Row>(query: string, query_params: Record<string, unknown> = {}): Promise<Row[]> =>
    (await books.client.query({ query, query_params, format: 'JSONEachRow' })).json<Row>();

  return {
    rows,
    /** Inserts events with their workspaces and marks their days, as the consumer does with a batch. */
    async book(nowMs: number, events: UsageEvent[]): Promise<void> {
      const carried = await makeFillOwners(world.sql, log, systemClock)(events.map(carryDecoded));
      await insertEvents(books, carried, systemClock);
      await makeMarkChangedDays(world.sql, systemClock)(carried, nowMs);
    },
    /** The days of a record that are marked as changed. */
    changedDays(billingId: string) {
      return world.sql<{ day: string; mark: number }[]>`
        select day, mark from usage_marks where billing_id = ${billingId} order by day`;
    },
    /** From here on no merge makes one of two rows of an event, and nothing can be deleted. */
    async stopMerges(): Promise<void> {
      await books.client.command({ query: 'system stop merges usage_events' });
    },
    /** How many rows, distinct events and micro-credits the books have of a record. */
    async booked(billingId: string): Promise<{ physical: number; events: number; cost: number }> {
      const [row] = await rows<{ physical: number; events: number; cost: number }>(
        `select toUInt32(count()) as physical, toUInt32(uniqExact(event_id)) as events,
                (select toFloat64(sum(cost_micros)) from usage_events final where billing_id = {billingId:String}) as cost
         from usage_events where billing_id = {billingId:String}`,
        { billingId },
      );
      return row!;
    },
    /** Stores a workspace with a key and a billing record in Postgres, and nowhere else. */
    async storeKeyAndBilling() {
      const { sql, team } = world;
      const [workspaceId, keyId, billingId] = [newId('ws'), newId('key'), newId('bill')];
      await sql`insert into workspaces (id, team_id, name) values (${workspaceId}, ${team.id}, 'w')`;
      await sql`insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled)
                values (${keyId}, ${team.id}, ${workspaceId}, 0, 'k', 'key', '', true)`;
      await sql`insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
                values (${billingId}, ${team.id}, ${workspaceId}, 'm', 0, 0, true)`;
      return { workspaceId, keyId, billingId };
    },
  };
}
