import type { Kafka } from './kafka.ts';
import type { Logger } from '../runtime/log.ts';
import { outboxWatermark } from './outbox-watch.ts';
import type { Query, Sql } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';

const EVERY_MS = 1_000;

/**
 * Notes again and again up to which moment (Redis's clock, in ms) all events are in the books: those before it have left
 * the outbox, and what Kafka held after that is committed.
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
  let inKafka: { reachMs: number; ends: Map<number, number> } | undefined;
  return startLoop(EVERY_MS, log, 'noting how far the books are', async () => {
    const reachMs = await outboxWatermark(redis);
    if (!kafka) return note(sql, reachMs);
    const progress = await kafka.progress();
    inKafka ??= { reachMs, ends: new Map(progress.map(({ partition, end }) => [partition, end])) };
    const { ends } = inKafka;
    if (progress.some(({ partition, committed }) => committed < (ends.get(partition) ?? 0))) return;
    await note(sql, inKafka.reachMs);
    inKafka = undefined;
  });
}

async function note(sql: Sql, reachMs: number): Promise<void> {
  await sql`
    insert into job_watermarks (job, at) values ('books_reach', ${reachMs})
    on conflict (job) do update set at = excluded.at`;
}

/** Up to which moment (Redis's clock, in ms) all events are in the books, as noted last. */
export async function booksWatermark(sql: Query): Promise<number> {
  const [row] = await sql<{ at: number }[]>`select at from job_watermarks where job = 'books_reach'`;
  return row?.at ?? 0;
}
