import { connectClickHouse } from '../../../shared/stores/clickhouse.ts';
import { encodeEvent, EVENT_FIELD } from '../../../shared/events/event.ts';
import { newId } from '../../../shared/values/ids.ts';
import { shardOf, SHARDS } from '../../../shared/values/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../../shared/stores/keyspace.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectRedis } from '../../../shared/stores/redis.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';

/** What the tests of the consumer work with: the stores of their own world, and the outbox in the exact form. */
export type Bench = Awaited<ReturnType<typeof makeBench>>;

/** The fields of an event that a test wants to choose; `ms` is its time. */
export type Wanted = {
  id?: string;
  ms?: number;
  key?: string;
  name?: string;
  cost?: number;
  used?: number;
  seq?: number;
};

export async function makeBench() {
  const world = await makeWorld([]);
  // Failures are what these tests make happen.
  const log = makeLogger('test', 'silent');
  const redis = connectRedis(world.env.REDIS_URL!, log);
  const node = redis.node(0);
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  await redis.connected(5_000);

  const rows = async <Row>(query: string, query_params: Record<string, unknown> = {}): Promise<Row[]> =>
    (await books.client.query({ query, query_params, format: 'JSONEachRow' })).json<Row>();

  return {
    world,
    log,
    redis,
    node,
    books,
    rows,
    metrics: makeMetrics('test'),
    /** Appends events as verify.lua does; gives their ids. */
    async append(billingId: string, events: Wanted[]): Promise<string[]> {
      const now = await redis.now();
      const pipeline = node.client.pipeline();
      const ids = events.map((wanted, i) => {
        const { id = newId('evt'), ms = now, key = KEY, name = 'default', cost = 1, seq = i + 1, used = seq } = wanted;
        const event = { id, timeMs: ms, keyId: key, billingId, usageName: name, costMicros: cost, usedMicros: used };
        const value = encodeEvent(testEvent({ ...event, sequence: seq, route: '/r' }));
        pipeline.xadd(keyspace.outbox(shardOf(billingId)), '*', EVENT_FIELD, value);
        return id;
      });
      for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
      return ids;
    },
    /** Entries in all outboxes; and of them, those delivered but not acknowledged. */
    async waiting(): Promise<{ entries: number; pending: number }> {
      const sum = { entries: 0, pending: 0 };
      for (let shard = 0; shard < SHARDS; shard++) {
        sum.entries += await node.client.xlen(keyspace.outbox(shard));
        const pending = await node.client.xpending(keyspace.outbox(shard), OUTBOX_GROUP).catch(() => [0]);
        sum.pending += pending[0] as number;
      }
      return sum;
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
    async stop() {
      await Promise.all([redis.close(), books.close()]);
      await world.stop();
    },
  };
}

export const KEY = newId('key');
