import type { Logger } from '../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import type { MasterKeys } from '../../../shared/values/seal.ts';
import { chainHead, chainSome, hasHead } from './chain.ts';
import { ChainKeyGone } from './chain-key.ts';
import { keepHead, readKeptHead } from './kept-head.ts';
import { headText, type Head } from './line-mac.ts';

type ChainerOptions = { sql: Sql; redis: ShardedRedis; masterKeys: MasterKeys; metrics: Metrics; log: Logger };

const EVERY_MS = 1_000;
const TELL_EVERY_MS = 60_000;

/**
 * Chains the lines of the audit log after their commit, within about a second. Every api does this; one at a time works.
 * 1. Chain what waits. A crash leaves it waiting.
 * 2. Keep the new head in Redis, if the chain still has the one kept there. A crash before it leaves an earlier head.
 */
export function startChainer(options: ChainerOptions): Loop {
  return startLoop(options.redis.clock, EVERY_MS, options.log, 'chaining the audit log', makeChainer(options));
}

/** What is done each time. */
export function makeChainer(options: ChainerOptions): () => Promise<void> {
  const { sql, masterKeys, metrics, log } = options;
  const { clock } = options.redis;
  let told = { at: -Infinity, head: '' };
  let wasWhole = true;
  return async () => {
    try {
      while (await chainSome(sql, masterKeys));
    } catch (error) {
      if (error instanceof ChainKeyGone) metrics.auditLogBroken.set(1);
      throw error;
    } finally {
      metrics.auditUnchainedSeconds.set(await oldestWaiting(sql));
    }
    const head = await chainHead(sql);
    const whole = await moveKeptHead(options, head);
    metrics.auditLogBroken.set(whole ? 0 : 1);
    if (!whole && wasWhole)
      log.error('the audit log has lost lines: its chain does not have the head that Redis keeps');
    wasWhole = whole;
    // In the log too, which is often collected elsewhere.
    if (!head || headText(head) === told.head || clock.monotonic() < told.at + TELL_EVERY_MS) return;
    told = { at: clock.monotonic(), head: headText(head) };
    log.info({ head: told.head }, 'the audit log is chained up to this head');
  };
}

/** How long the oldest line has waited that is not in the chain, in seconds. */
export async function oldestWaiting(sql: Sql): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select extract(epoch from clock_timestamp() - noted_at)::float8 as seconds from audit_unchained order by line_id limit 1`;
  return Math.max(0, row?.seconds ?? 0);
}

// False: the chain lacks what Redis keeps. What is kept then stays, as the evidence.
async function moveKeptHead({ sql, redis }: ChainerOptions, head: Head | undefined): Promise<boolean> {
  const kept = await readKeptHead(redis);
  if (kept && !(await hasHead(sql, kept))) return false;
  if (head && head.number > (kept?.number ?? 0)) await keepHead(redis, head);
  return true;
}
