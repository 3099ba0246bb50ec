import type { Kafka } from './kafka.ts';
import type { Logger } from '../runtime/log.ts';
import { outboxWatermark } from './outbox-watch.ts';
import type { Query, Sql } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';

const EVERY_MS = 1_000;
const WHILE_IDLE_EVERY_MS = 5_000;

/**
 * Stores every second how complete the books are, every five while nobody writes to Redis: they hold all events from before a moment of
 * Redis's clock, in ms. Those events have left the outbox, and the consumers have committed what Kafka held once they had left it.
 */
export function trackWatermark({
  sql,
  redis,
  kafka,
  log,
}: {
  sql: Sql;
  redis: ShardedRedis;
  kafka: Kafka | undefined;
  log: Logger;
}): Loop {
  // A watermark of the outbox, and the ends of Kafka's partitions, read after it.
  let pending: { beforeMs: number; ends: Map<number, number> } | undefined;
  let stored = { mark: '', at: -Infinity };
  return startLoop(redis.clock, EVERY_MS, log, 'storing the watermark of the books', async () => {
    const at = redis.clock.monotonic();
    const { beforeMs, mark } = await outboxWatermark(redis);
    if (mark === stored.mark && at < stored.at + WHILE_IDLE_EVERY_MS) return;
    if (await store(beforeMs)) stored = { mark, at };
  });

  /** Gives whether all that has left the outbox is in the books. */
  async function store(beforeMs: number): Promise<boolean> {
    if (!kafka) {
      await storeWatermark(sql, beforeMs);
      return true;
    }
    const progress = await kafka.progress();
    // The clock was set back: what was read before it says nothing of events since.
    if (pending && beforeMs < pending.beforeMs) pending = undefined;
    pending ??= { beforeMs, ends: new Map(progress.map(({ partition, end }) => [partition, end])) };
    const { ends } = pending;
    if (progress.some(({ partition, committed }) => committed < (ends.get(partition) ?? 0))) return false;
    const isWhole = pending.beforeMs === beforeMs;
    await storeWatermark(sql, pending.beforeMs);
    pending = undefined;
    return isWhole;
  }
}

/** Says that the books hold all events from before a moment. */
export async function storeWatermark(sql: Query, beforeMs: number): Promise<void> {
  await sql`
    insert into job_watermarks (job, at) values ('books_reach', ${beforeMs})
    on conflict (job) do update set at = excluded.at`;
}

/** The moment (Redis's clock, in ms) before which all events are in the books, as last stored. */
export async function booksWatermark(sql: Query): Promise<number> {
  const [row] = await sql<{ at: number }[]>`select at from job_watermarks where job = 'books_reach'`;
  return row?.at ?? 0;
}
