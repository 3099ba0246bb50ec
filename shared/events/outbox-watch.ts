import { keyspace } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { runPipeline } from '../stores/pipeline.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';

/** Counts the usage events that wait in Redis, so that debits stop before Redis runs out of memory. */
export type OutboxWatch = Loop & { full(): boolean };

const EVERY_MS = 500;
const WITHIN_MS = 1_000;

/** Looks at every shard's outbox twice a second. From `maxEntries` on it is full: no billing record is debited until it drains. */
export function watchOutbox(redis: ShardedRedis, maxEntries: number, metrics: Metrics, log: Logger): OutboxWatch {
  let full = false;
  const loop = startLoop(EVERY_MS, log, 'watching the outbox', async () => {
    const { entries, oldestAgeMs } = await outboxState(redis);
    full = entries >= maxEntries;
    metrics.outboxEntries.set(entries);
    metrics.outboxAgeSeconds.set(oldestAgeMs / 1000);
  });
  return { ...loop, full: () => full };
}

/** How many usage events wait in all outboxes, and the age of the oldest by Redis's clock. */
export async function outboxState(redis: ShardedRedis): Promise<{ entries: number; oldestAgeMs: number }> {
  const ofNodes = await Promise.all([...redis.byNode()].map(async ([node, shards]) => nodeState(node, shards)));
  return {
    entries: ofNodes.reduce((sum, one) => sum + one.entries, 0),
    oldestAgeMs: Math.max(0, ...ofNodes.map((one) => one.oldestAgeMs)),
  };
}

async function nodeState(node: RedisNode, shards: number[]) {
  const [{ entries, oldestMs }, nowMs] = await Promise.all([readOutboxes(node, shards), node.now()]);
  return { entries, oldestAgeMs: Math.max(0, nowMs - oldestMs) };
}

/** How many entries the outboxes of a server hold, and when the oldest was appended. */
async function readOutboxes(node: RedisNode, shards: number[]): Promise<{ entries: number; oldestMs: number }> {
  const pipeline = node.client.pipeline();
  for (const shard of shards) {
    pipeline.xlen(keyspace.outbox(shard));
    pipeline.xrange(keyspace.outbox(shard), '-', '+', 'COUNT', 1);
  }
  const answers = await runPipeline(pipeline, WITHIN_MS);
  const entries = shards.map((_, i) => Number(answers[2 * i]));
  const oldest = shards.map((_, i) => {
    const [first] = (answers[2 * i + 1] ?? []) as [id: string][];
    return first ? Number(first[0].split('-')[0]) : Infinity;
  });
  return { entries: entries.reduce((sum, one) => sum + one, 0), oldestMs: Math.min(...oldest) };
}

/** The moment (Redis's clock, in ms) before which every event has left the outbox, on all servers. */
export async function outboxWatermark(redis: ShardedRedis): Promise<number> {
  const ofNodes = await Promise.all(
    [...redis.byNode()].map(async ([node, shards]) => {
      // The clock is read first: an event that is appended while we look at the streams is younger.
      const nowMs = await node.now();
      const { oldestMs } = await readOutboxes(node, shards);
      return Math.min(nowMs, oldestMs);
    }),
  );
  return Math.min(...ofNodes);
}
