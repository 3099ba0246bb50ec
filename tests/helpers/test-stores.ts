import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { connectPostgres, type Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { newId } from '../../shared/values/ids.ts';
import { SLOTS_OF_WORKERS } from '../runner/test-file.ts';
import { atEnd } from './at-end.ts';
import { connectPatiently } from './patient-redis.ts';
import { checkNotifiedEvents } from './notified-events.ts';
import { makeDatabases, openEmptied } from './world.ts';

/** Stores that no program of ours uses, with a team of its own. */
export type TestStores = {
  sql: Sql;
  redis: ShardedRedis;
  books: Books;
  env: Record<string, string>;
  team: { id: string; tokenId: string };
};

/** The epoch of all shards. */
export const TEST_EPOCH = 5;
const TABLES = ['usage_events', 'usage_days', 'booked_days', 'refusals', 'recent_refusals'];
let shared: Promise<Omit<TestStores, 'team'>> | undefined;

/**
 * The stores that all test files of this process share: Redis and the books are emptied, and the shards are open; what other files
 * left in Postgres is that of other teams.
 */
export async function connectTestStores(): Promise<TestStores> {
  const stores = await (shared ??= connect());
  const { sql, redis } = stores;
  await openEmptied(redis, { epoch: TEST_EPOCH, change: 0, writes: 1 });
  await sql`delete from job_watermarks`;
  await sql`delete from usage_marks`;
  const { client: books } = stores.books;
  for (const table of TABLES) await books.command({ query: `truncate table ${table}` });
  const team = await newTeam(sql);
  atEnd(() => checkNotifiedEvents(sql, team.id));
  return { ...stores, team };
}

async function newTeam(sql: Sql): Promise<TestStores['team']> {
  const [id, tokenId] = [newId('team'), newId('tok')];
  await sql`insert into teams (id, name) values (${id}, ${id})`;
  await sql`
    insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions)
    values (${tokenId}, ${id}, 'test', ${tokenId}, '', 0, '{}')`;
  return { id, tokenId };
}

async function connect(): Promise<Omit<TestStores, 'team'>> {
  const env = await makeDatabases({}, String(Number(process.env.TEST_WORKER) + SLOTS_OF_WORKERS));
  const redis = connectPatiently(env.REDIS_URL!);
  await redis.connected(60_000);
  return {
    env,
    redis,
    sql: connectPostgres(env.DATABASE_URL!, { max: 4 }),
    books: connectClickHouse(env.CLICKHOUSE_URL!),
  };
}
