import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { closeMonths, isMonthDue } from './close-months.ts';
import { removeExpired } from './expire.ts';
import { planMeters } from './plan-meters.ts';
import { copyRecentUse } from './recent-use.ts';
import { reconcileAll } from './reconcile.ts';
import { rollUp } from './rollup.ts';
import type { Job } from './start-jobs.ts';
import { copyTokenUses } from './token-uses.ts';

type JobStores = { sql: Sql; redis: ShardedRedis; books: Books };

/** Every job and its times in UTC: second, minute, hour, day of the month, month, day of the week. */
export function schedules(stores: JobStores, metrics: Metrics, log: Logger): Job[] {
  const { sql, redis } = stores;
  return [
    // Copies last uses of keys, and used credits of billing records, from the books to Postgres.
    { name: 'recent-use', cron: '*/20 * * * * *', work: (signal) => copyRecentUse(stores, signal) },
    // Copies last uses of access tokens from Redis to Postgres.
    { name: 'token-uses', cron: '*/20 * * * * *', work: () => copyTokenUses(sql, redis) },
    // Sums up the changed days that are over.
    { name: 'rollup', cron: '30 * * * * *', work: async (signal) => rollUp(stores, await redis.now(), signal) },
    // Compares all billing records with the books.
    { name: 'reconcile', cron: '0 47 * * * *', work: (signal) => reconcileAll(stores, metrics, log, signal) },
    // Plans what external meters are told of hours that are over.
    { name: 'plan-meters', cron: '10 * * * * *', work: (signal) => planMeters(stores, redis.clock, log, signal) },
    // Closes months that are over.
    {
      name: 'close-months',
      cron: '*/5 * * * * *',
      isDue: async () => isMonthDue(sql, await redis.now()),
      work: async (signal) => closeMonths(stores, await redis.now(), log, signal),
    },
    // Removes rows that have expired.
    { name: 'expire', cron: '0 17 * * * *', work: (signal) => removeExpired(sql, signal) },
  ];
}
