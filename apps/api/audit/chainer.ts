import type { Logger } from '../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { chainHead, chainSome, hasHead, oldestWaiting } from './chain.ts';
import { headText, keepHead, readKeptHead, type Head } from './head.ts';

type ChainerOptions = { sql: Sql; redis: ShardedRedis; metrics: Metrics; log: Logger };

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
  const { sql, metrics, log } = options;
  const { clock } = options.redis;
  let told = { at: -Infinity, head: '' };
  let wasWhole = true;
  return async () => {
    try {
      while (await chainSome(sql));
    } finally {
      metrics.auditUnchainedSeconds.set(await oldestWaiting(sql));
    }
    const head = await chainHead(sql);
    const whole = await moveKeptHead(options, head);
    metrics.auditLogBroken.set(whole ? 0 : 1);
    if (!whole && wasWhole) log.error('the audit log was changed: its chain does not have the head that Redis keeps');
    wasWhole = whole;
    // In the log too, which is often collected elsewhere.
    if (!head || headText(head) === told.head || clock.monotonic() < told.at + TELL_EVERY_MS) return;
    told = { at: clock.monotonic(), head: headText(head) };
    log.info({ head: told.head }, 'the audit log is chained up to this head');
  };
}

// False: the chain lacks what Redis keeps. What is kept then stays, as the evidence.
async function moveKeptHead({ sql, redis }: ChainerOptions, head: Head | undefined): Promise<boolean> {
  const kept = await readKeptHead(redis);
  if (kept && !(await hasHead(sql, kept))) return false;
  if (head && head.number > (kept?.number ?? 0)) await keepHead(redis, head);
  return true;
}
