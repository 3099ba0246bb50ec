import { systemClock } from '../../../shared/runtime/clock.ts';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import { readConfig } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { makeLogger, type Logger } from '../../../shared/runtime/log.ts';
import { connectPostgres, type Sql } from '../../../shared/stores/postgres.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import type { StoredChange } from '../sync/change.ts';
import { applyChanges } from '../sync/sync.ts';

export type ToolStores = { sql: Sql; redis: ShardedRedis; books: Books; log: Logger };

// Redis answers nothing while it reads its data after a start, or waits for its disk.
const CONNECTED_WITHIN_MS = 30_000;

/** Runs an operator's command on the three stores. Its result is the exit code; a failure prints one line. */
export async function runTool(name: string, work: (stores: ToolStores) => Promise<number>): Promise<void> {
  const log = makeLogger(name, 'silent');
  try {
    const config = readConfig(programs.tool);
    const sql = connectPostgres(config.DATABASE_URL, { max: 4, statementTimeoutMs: 0, everyTeam: true });
    const redis = connectRedis(config.REDIS_URL, log, systemClock, { minReplicas: config.REDIS_MIN_REPLICAS });
    const books = connectClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER);
    try {
      await redis.connected(CONNECTED_WITHIN_MS);
      process.exitCode = await work({ sql, redis, books, log });
    } finally {
      await Promise.all([sql.end({ timeout: 5 }), redis.close(), books.close()]);
    }
  } catch (error) {
    console.error(`${name}: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}

/** Brings what a command stored into force at once if Redis is available; else the sweeper does, once Redis is back. */
export async function bringIntoForce(name: string, sql: Sql, redisUrl: string, pages: StoredChange[][]): Promise<void> {
  const redis = connectRedis(redisUrl, makeLogger(name, 'silent'), systemClock);
  await redis
    .connected(2_000)
    .then(async () => {
      for (const page of pages) await applyChanges(sql, redis, page);
    })
    .catch(() => {});
  await redis.close();
}

/** Shows the progress of a command: on a terminal in one line that is overwritten, elsewhere every few seconds. */
export function progressLine(everyMs = process.stderr.isTTY ? 200 : 5_000) {
  let shownAt = systemClock.monotonic();
  return {
    show(text: () => string) {
      if (systemClock.monotonic() - shownAt < everyMs) return;
      shownAt = systemClock.monotonic();
      process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text()}` : `${text()}\n`);
    },
    end() {
      if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    },
  };
}
