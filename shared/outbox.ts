import { SHARDS } from './key-text.ts';
import { keyspace } from './keyspace.ts';
import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { RedisLink } from './redis.ts';
import { repeat, type Repeating } from './repeat.ts';
import { within } from './within.ts';

/** Watches how many usage events wait in Redis, so that none is dropped for want of room. */
export type OutboxWatch = Repeating & { full(): boolean };

const EVERY_MS = 500;
const WITHIN_MS = 1_000;

/** Looks at every shard's outbox twice a second. Above `maxEntries`, whatever would debit a billing record has to wait. */
export function watchOutbox(link: RedisLink, maxEntries: number, metrics: Metrics, log: Logger): OutboxWatch {
  let full = false;
  const repeating = repeat(EVERY_MS, log, 'watching the outbox', async () => {
    const { entries, oldestMs, nowMs } = await outboxState(link);
    full = entries >= maxEntries;
    metrics.outboxEntries.set(entries);
    metrics.outboxAgeSeconds.set(oldestMs === undefined ? 0 : Math.max(0, nowMs - oldestMs) / 1000);
  });
  return { ...repeating, full: () => full };
}

/** Entries waiting in all outboxes, when the oldest was written, and Redis's own time, both in ms. */
export async function outboxState(
  link: RedisLink,
): Promise<{ entries: number; oldestMs: number | undefined; nowMs: number }> {
  const pipeline = link.client.pipeline();
  for (let shard = 0; shard < SHARDS; shard++) {
    pipeline.xlen(keyspace.outbox(shard));
    pipeline.xrange(keyspace.outbox(shard), '-', '+', 'COUNT', 1);
  }
  const answers = (await within(WITHIN_MS, pipeline.time().exec())) ?? [];
  let entries = 0;
  let oldestMs: number | undefined;
  for (let shard = 0; shard < SHARDS; shard++) {
    entries += Number(answers[2 * shard]?.[1] ?? 0);
    const first = answers[2 * shard + 1]?.[1] as [[id: string]] | [] | undefined;
    const at = first?.[0] && Number(first[0][0].split('-')[0]);
    if (at !== undefined && (oldestMs === undefined || at < oldestMs)) oldestMs = at;
  }
  const [seconds, micros] = (answers[2 * SHARDS]?.[1] ?? []) as string[];
  return { entries, oldestMs, nowMs: Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) };
}
