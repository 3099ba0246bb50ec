import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import { closeMonths, isMonthDue, type JobStores } from './close-months.ts';
import { removeExpired } from './expire.ts';
import { planMeters } from './plan-meters.ts';
import { copyRecentUse } from './recent-use.ts';
import { reconcileAll } from './reconcile.ts';
import { rollUp } from './rollup.ts';
import type { Job } from './start-jobs.ts';
import { copyTokenUses } from './token-uses.ts';

/** Every job and its times in UTC: second, minute, hour, day of the month, month, day of the week. */
export function schedules(stores: JobStores, metrics: Metrics, log: Logger): Job[] {
  const { sql, redis } = stores;
  return [
    { name: 'recent-use', cron: '*/20 * * * * *', work: (signal) => copyRecentUse(stores, signal) },
    { name: 'token-uses', cron: '*/20 * * * * *', work: () => copyTokenUses(sql, redis) },
    { name: 'rollup', cron: '30 * * * * *', work: async (signal) => rollUp(stores, await redis.now(), signal) },
    { name: 'reconcile', cron: '0 47 * * * *', work: (signal) => reconcileAll(stores, metrics, log, signal) },
    { name: 'plan-meters', cron: '10 * * * * *', work: (signal) => planMeters(stores, redis.clock, log, signal) },
    {
      name: 'close-months',
      cron: '*/5 * * * * *',
      isDue: async () => isMonthDue(sql, await redis.now()),
      work: async (signal) => closeMonths(stores, await redis.now(), log, signal),
    },
    { name: 'expire', cron: '0 17 * * * *', work: (signal) => removeExpired(sql, signal) },
  ];
}
