import { parseArgs } from 'node:util';
import { succeeds } from '../../../shared/runtime/succeeds.ts';
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

/** Runs an operator's command. Its result is the exit code; a failure prints one line, and exits with `failed`. */
export async function runCommand(name: string, work: () => Promise<number>, failed = 1): Promise<void> {
  try {
    process.exitCode = await work();
  } catch (error) {
    console.error(`${name}: ${(error as Error).message}`);
    process.exitCode = failed;
  }
}

/** Runs an operator's command on the three stores. */
export function runTool(name: string, work: (stores: ToolStores) => Promise<number>): Promise<void> {
  const log = makeLogger(name, 'silent');
  return runCommand(name, async () => {
    const config = readConfig(programs.tool);
    const redis = connectRedis(config.REDIS_URL, log, systemClock, { minReplicas: config.REDIS_MIN_REPLICAS });
    const books = connectClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER);
    try {
      return await withPostgres(config.DATABASE_URL, async (sql) => {
        await redis.connected(CONNECTED_WITHIN_MS);
        return work({ sql, redis, books, log });
      });
    } finally {
      await Promise.all([redis.close(), books.close()]);
    }
  });
}

/** Does work on Postgres, of every team and for as long as it takes. */
export async function withPostgres<Result>(url: string, work: (sql: Sql) => Promise<Result>): Promise<Result> {
  const sql = connectPostgres(url, { max: 4, statementTimeoutMs: 0, everyTeam: true });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** Does work on Redis; `isReachable`: it has answered within this time. */
export async function withRedis<Result>(
  name: string,
  url: string,
  withinMs: number,
  work: (redis: ShardedRedis, isReachable: boolean) => Promise<Result>,
): Promise<Result> {
  const redis = connectRedis(url, makeLogger(name, 'silent'), systemClock);
  const isReachable = succeeds(redis.connected(withinMs));
  return isReachable.then((reachable) => work(redis, reachable)).finally(() => redis.close());
}

/** The name of the team that a command line gives; undefined if it is wrong. */
export function readTeam(args: string[]): string | undefined {
  try {
    const { team } = parseArgs({ args, options: { team: { type: 'string' } } }).values;
    return team && team.length <= 128 ? team : undefined;
  } catch {
    return undefined;
  }
}

/** Brings what a command stored into force at once if Redis is available; else the sweeper does, once Redis is back. */
export async function bringIntoForce(name: string, sql: Sql, redisUrl: string, changes: StoredChange[]): Promise<void> {
  await withRedis(name, redisUrl, 2_000, async (redis, isReachable) => {
    if (isReachable) await applyChanges(sql, redis, changes);
  }).catch(() => {});
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
