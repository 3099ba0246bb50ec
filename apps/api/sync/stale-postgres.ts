import { ApiError } from '../../../shared/contract/errors.ts';
import { lastChanges } from '../../../shared/stores/fence.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';

const LOOK_WITHIN_MS = 1_000;

/** Remembers whether Postgres is older than Redis: restored from a backup, without the changes that Redis received since. */
export type StalePostgresWatch = {
  note(stale: boolean): void;
  /** Throws while it is older: a write would build on outdated settings. */
  refuse(): void;
};

/** Tells operators, by log and metric, when Postgres is found to be older than Redis and when it no longer is. */
export function watchStalePostgres(metrics: Metrics, log: Logger): StalePostgresWatch {
  let known = false;
  return {
    note(stale) {
      metrics.settingsOlder.set(stale ? 1 : 0);
      if (stale && !known)
        log.error('Postgres is older than Redis: changes are refused until `npm run restored` was run');
      if (!stale && known) log.warn('Postgres is no longer older than Redis');
      known = stale;
    },
    refuse() {
      if (known) throw new ApiError('postgres_stale');
    },
  };
}

/** Whether shards, open or closed, hold changes that this Postgres has not made: these, or else all that can be asked. */
export async function isPostgresStale(sql: Sql, redis: ShardedRedis, these?: number[]): Promise<boolean> {
  const all = await lastChanges(redis, LOOK_WITHIN_MS);
  const shards = these ?? [...all.keys()];
  if (shards.some((shard) => !all.has(shard))) throw new ApiError('redis_unavailable');
  const [made] = await orGiveUp(sql<[{ last: number }]>`select last_value as last from changes_id_seq`);
  return shards.some((shard) => all.get(shard)!.change > made.last);
}
