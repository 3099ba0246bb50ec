import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../shared/runtime/clock.ts';
import { keytally, type Keytally } from '../clients/node/index.ts';
import { openShards } from '../shared/stores/fence.ts';
import { keyspace } from '../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../shared/values/key-text.ts';
import { makeLogger } from '../shared/runtime/log.ts';
import { connectPostgres } from '../shared/stores/postgres.ts';
import { connectRedis, type ShardedRedis } from '../shared/stores/redis.ts';
import { showProgress } from './watch.ts';
import { freePorts } from '../apps/stack/process/ports.ts';
import { answersOk } from '../apps/stack/process/program.ts';
import { ourProgram } from '../apps/stack/servers/programs.ts';
import { ensureRedis, redisProgram } from '../apps/stack/servers/redis.ts';
import { eventually } from '../tests/helpers/eventually.ts';
import { seed } from './seed.ts';
import type { Stage } from './stage.ts';
import type { Load } from './wrk.ts';

/** A verify process with a Redis and a database of its own. */
export type World = {
  name: string;
  url: string;
  token: string;
  keys: string[];
  /** A key whose credits pay for `CREDITS_CALLS` calls, and one that may be verified `RATE` times a second. */
  credits: string;
  rate: string;
  /** A file with one request body per line. */
  bodies: string;
  redis: ShardedRedis;
  env: NodeJS.ProcessEnv;
  /** Deletes the events so far: no consumer runs here, and the outbox has a limit. */
  clear(): Promise<void>;
};

/** How many of these calls the key of exact credits pays for. */
export const CREDITS_CALLS = 5_000;
/** The rate limit per second of the key of an exact rate. */
export const RATE = 500;
/** Of most loads. */
export const CONNECTIONS = 64;
const KEYS_USED = 1_000;
const OPEN_WITHIN_MS = 600_000;

/**
 * Makes a world with `count` keys: writes them to Postgres, and lets the api bring them into Redis. `arrange` may make more
 * before the api ends.
 */
export async function makeWorld(
  stage: Stage,
  name: string,
  count: number,
  arrange?: (client: Keytally, workspaceId: string) => Promise<void>,
): Promise<World> {
  const { servers, supervisor, folder } = stage;
  const [redisPort = 0, api = 0, verify = 0] = await freePorts(3);
  const database = `bench_${name}`;
  const admin = connectPostgres(servers.addresses('postgres').DATABASE_URL, { max: 1 });
  await admin`create database ${admin(database)} template keytally_template`;
  await admin.end();
  const sql = connectPostgres(servers.addresses(database).DATABASE_URL, { max: 1, statementTimeoutMs: 0 });
  const told = (done: number) => showProgress(`${name}: keys`, done, count);
  const { token, workspaceId, keys } = await seed(sql, count, KEYS_USED, told);
  await sql.end();

  const binary = await ensureRedis(console.log);
  await supervisor.add({
    ...redisProgram({ binary, folder: join(folder, `redis-${name}`), port: redisPort }),
    name: `redis-${name}`,
  });
  const env = {
    PATH: process.env.PATH,
    ...servers.addresses('keytally_template'),
    DATABASE_URL: servers.addresses(database).DATABASE_URL,
    REDIS_URL: `redis://127.0.0.1:${redisPort}`,
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    LOG_LEVEL: 'warn',
    // One team makes all calls.
    QUOTA_VERIFY_PER_SECOND: '1000000',
    QUOTA_API_PER_SECOND: '1000000',
  };
  // The api opens the shards of the empty Redis once all keys are in it, and is then no longer needed.
  const healthy = () => answersOk(`http://127.0.0.1:${api}/healthz`);
  await supervisor.add({ ...ourProgram('api', `api-${name}`, api, env), isReady: healthy });
  const redis = connectRedis(env.REDIS_URL, makeLogger('bench', 'error'), systemClock);
  await redis.connected(5_000);
  await eventually(
    'every shard is open',
    async () => (await openShards(redis, 1_000)).size === ALL_SHARDS.length,
    OPEN_WITHIN_MS,
  );
  await supervisor.add(ourProgram('verify', `verify-${name}`, verify, env));
  const url = `http://127.0.0.1:${verify}`;
  const client = keytally({ url: `http://127.0.0.1:${api}`, verifyUrl: url, token });
  const scopes = [{ representation: 'users', read: true }];
  const common = { workspaceId, name: 'exact', scopes };
  const totalCredits = String(CREDITS_CALLS / 1_000);
  await client.billing.create({ workspaceId, externalMeterId: 'exact', totalCredits });
  const credits = (await client.apiKeys.create({ ...common, externalMeterId: 'exact' })).apiKey.key;
  const rate = (await client.apiKeys.create({ ...common, rateLimitPerSecond: RATE })).apiKey.key;
  await arrange?.(client, workspaceId);
  await supervisor.remove(`api-${name}`);

  const bodies = join(folder, `bodies-${name}`);
  writeFileSync(bodies, keys.map((key) => `${bodyOf(key)}\n`).join(''));
  const clear = async () =>
    void (await redis
      .node(0)
      .client.del(...ALL_SHARDS.flatMap((shard) => [keyspace.outbox(shard), keyspace.more(shard)])));
  return { name, url, token, keys, credits, rate, bodies, redis, env, clear };
}

/** The request that is measured: a scope, a cost and a route. It may hold its credits for so many seconds. */
export function bodyOf(key: string, { holdSeconds }: { holdSeconds?: number } = {}): string {
  return JSON.stringify(callOf(key, holdSeconds));
}

function callOf(key: string, holdSeconds?: number) {
  const hold = holdSeconds !== undefined && { hold: { expiresIn: holdSeconds } };
  const requestedScopes = [{ representation: 'users', read: true }];
  return { key, requestedScopes, billing: { usage: '0.001', ...hold }, route: 'GET /users' };
}

/** The same call as a gateway makes it. */
export const GATEWAY = '/gateway/nginx/usage=0.001,scope=users.read/';

/** The load that most contenders get: the bodies of a world over so many connections. */
export function loadOf({ bodies, token }: Pick<World, 'bodies' | 'token'>, url: string): Omit<Load, 'seconds'> {
  return { url, bodies, token, connections: CONNECTIONS };
}

/** The answer to the request that is measured, as text. */
export async function answerOf({ url, token, keys }: World): Promise<string> {
  return JSON.stringify(await keytally({ url, token }).verify(callOf(keys[0]!)));
}
