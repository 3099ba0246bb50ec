import { createClient } from '@clickhouse/client';
import postgres from '../../shared/stores/postgres-driver.ts';
import { permissions, type Permission } from '../../shared/contract/caller.ts';
import { newId } from '../../shared/values/ids.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { ALL_SHARDS, hashKeyText, makeKeyText, randomShard } from '../../shared/values/key-text.ts';
import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { migrateClickHouse } from '../../shared/stores/migrate.ts';
import { connectPostgres, type Sql } from '../../shared/stores/postgres.ts';
import { runPipeline } from '../../shared/stores/pipeline.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { atEnd } from './at-end.ts';
import { makeCustomers, newWorkspace as newWorkspaceBy } from './customers.ts';
import { eventually } from './eventually.ts';
import { connectPatiently } from './patient-redis.ts';
import { checkNotifiedEvents } from './notified-events.ts';
import { decided, once, request, type Call } from './request.ts';
import { postgresPosition } from '../../apps/api/sync/sweeper.ts';
import { applyChanges } from '../../apps/api/sync/sync.ts';
import type { StoredChange } from '../../apps/api/sync/change.ts';
import { spawnProgram, startProgram, type Program, type Spawned, type Started } from './start-program.ts';

// What most test files need beside their world.
export { column, columns } from './columns.ts';
export { makeCustomers, must, newWorkspace, totalOf, type Customers, type TestKey } from './customers.ts';
export { eventually } from './eventually.ts';
export { decided, once, request, type Answer } from './request.ts';
export { hearOutput, type Spawned, type Started } from './start-program.ts';
export { wireTo, type Wire } from './wire.ts';

type Team = { id: string; token: string };

/** What a test file works in: databases on the run's real servers, and our programs on them. */
export type World<Running = Started> = {
  sql: Sql;
  redis: ShardedRedis;
  books: Books;
  env: Record<string, string>;
  api: Running;
  verify: Running | undefined;
  consumer: Running | undefined;
  /** A team with an access token of all permissions, which requests use by default. */
  team: Team;
  call: Call;
  newTeam(): Promise<Team>;
  /** Stores a workspace and does nothing else, for tests that need one of another team. */
  newWorkspace(teamId: string): Promise<string>;
  /** Makes an access token that is in force. */
  newToken(teamId: string, granted: readonly Permission[], workspaceIds?: string[]): Promise<string>;
  start(program: Program, env?: Record<string, string>): Promise<Running>;
  /** Waits until a consumer has carried all that was decided so far into the books. */
  booked(): Promise<void>;
  stop(): Promise<void>;
};

// A test may fill tables, which takes a busy machine a while.
const SQL_WITHIN_MS = 60_000;

let shared: Promise<World> | undefined;

/**
 * A team of its own in the stack that all test files of this process share, and leave to the next one. What a file starts in it is
 * stopped at its end. The servers come from the test run: `make test FILE=…`.
 */
export async function joinWorld(): Promise<World & { verify: Started; consumer: Started }> {
  // Slots of workers are below those of files.
  const slot = requireEnv('TEST_WORKER');
  const world = await (shared ??= ownWorld(startProgram, ['api', 'verify', 'consumer'], {}, slot));
  const team = await world.newTeam();
  const started: Started[] = [];
  const stop = atEnd(async () => {
    await checkNotifiedEvents(world.sql, team.id);
    await Promise.all(started.map((one) => one.stop()));
  });
  return {
    ...world,
    verify: world.verify!,
    consumer: world.consumer!,
    team,
    call: repeating(callOf(world.api.url, team)),
    async start(program, more) {
      const one = await world.start(program, more);
      started.push(one);
      return one;
    },
    stop,
  };
}

/** The same, a workspace in it, and what makes customers there. */
export async function joinWorkspace(fields?: object) {
  const world = await joinWorld();
  const workspaceId = await newWorkspaceBy(world, fields);
  return { world, workspaceId, customers: makeCustomers(world, workspaceId) };
}

/**
 * A stack of its own, in this process, for what looks at whole databases, breaks something, or has other settings. It is stopped at the
 * end of the file, or before.
 */
export function makeWorld(programs: Program[] = ['api'], settings: Record<string, string> = {}): Promise<World> {
  return stoppedAtEnd(ownWorld(startProgram, programs, settings), checkNotifiedEvents);
}

/** The same with programs that are processes, for what kills them. */
export function spawnWorld(
  programs: Program[] = ['api'],
  settings: Record<string, string> = {},
): Promise<World<Spawned>> {
  return stoppedAtEnd(ownWorld(spawnProgram, programs, settings));
}

async function stoppedAtEnd<Running>(
  starting: Promise<World<Running>>,
  check?: (sql: Sql) => Promise<void>,
): Promise<World<Running>> {
  const world = await starting;
  const stop = atEnd(async () => {
    await check?.(world.sql);
    await world.stop();
  });
  return { ...world, stop };
}

async function ownWorld<Running extends Started | Spawned>(
  run: (program: Program, env: Record<string, string>) => Promise<Running>,
  programs: Program[],
  settings: Record<string, string>,
  slot = requireEnv('TEST_SLOT'),
): Promise<World<Running>> {
  const env = await makeDatabases(settings, slot);
  const sql = connectPostgres(withEndlessPauses(env.DATABASE_URL!), { max: 4, statementTimeoutMs: SQL_WITHIN_MS });
  const redis = connectPatiently(env.REDIS_URL!);
  if (run === startProgram && settings.REDIS_URL === undefined) await openUp(sql, redis);
  const books = connectClickHouse(env.CLICKHOUSE_URL!);
  const started: Running[] = [];
  async function start(program: Program, more: Record<string, string> = {}): Promise<Running> {
    const one = await run(program, environmentOf(program, { ...env, ...more }));
    started.push(one);
    return one;
  }

  const api = await start('api');
  const newToken = (teamId: string, granted: readonly Permission[], workspaceIds?: string[]) =>
    makeToken(sql, redis, { teamId, granted, workspaceIds });
  const newTeam = async () => {
    const id = newId('team');
    await sql`insert into teams (id, name) values (${id}, ${id})`;
    return { id, token: await newToken(id, permissions) };
  };
  const [team, verify, consumer] = await Promise.all([
    newTeam(),
    programs.includes('verify') ? start('verify') : undefined,
    programs.includes('consumer') ? start('consumer') : undefined,
  ]);

  return {
    sql,
    redis,
    books,
    env,
    api,
    verify,
    consumer,
    team,
    newTeam,
    newWorkspace: (teamId) => newWorkspace(sql, teamId),
    newToken,
    start,
    call: callOf(api.url, team),
    async booked() {
      await eventually('the outbox is empty', async () => {
        const lengths = await Promise.all(
          ALL_SHARDS.map((shard) => redis.node(shard).client.xlen(keyspace.outbox(shard))),
        );
        return lengths.every((length) => length === 0);
      });
    },
    async stop() {
      await Promise.all(started.map((one) => one.stop('SIGKILL')));
      await Promise.all([sql.end(), redis.close(), books.close()]);
    },
  };
}

function callOf(apiUrl: string, team: Team): Call {
  return (method, path, body, options = {}) =>
    request(path.startsWith('http') ? path : apiUrl + path, method, { token: team.token, body, ...options });
}

// As the contract asks of clients: a machine that stands still for some seconds leaves a request undecided, and it is sent again.
// Programs that a file starts by itself answer once: it may break what they need. Headers that are given are all that is sent.
function repeating(call: Call): Call {
  return (method, path, body, options = {}) => {
    if (!path.startsWith('/')) return call(method, path, body, options);
    return decided(call(method, path, body, { ...(method === 'post' && { headers: once() }), ...options }));
  };
}

/** Makes one more database in Postgres, empty or as another one is; gives its address. */
export async function emptyPostgres(suffix: string, template = 'template1'): Promise<string> {
  const name = `test_${requireEnv('TEST_SLOT')}_${suffix}`;
  const admin = postgres(requireEnv('TEST_POSTGRES_URL'), { max: 1, onnotice: () => {} });
  await admin`drop database if exists ${admin(name)} with (force)`;
  await admin`create database ${admin(name)} template ${admin(template)}`;
  await admin.end();
  return withPath(requireEnv('TEST_POSTGRES_URL'), name);
}

/** A connection to the database of this test file on the run's Redis. */
export async function connectTestRedis(): Promise<ShardedRedis> {
  const redis = connectPatiently(withPath(requireEnv('TEST_REDIS_URL'), requireEnv('TEST_SLOT')));
  atEnd(() => redis.close());
  await redis.connected(60_000);
  return redis;
}

/** Makes the databases of this test file on the run's servers; gives the environment of programs that use them. */
export async function makeDatabases(settings: Record<string, string>, slot: string): Promise<Record<string, string>> {
  const name = `test_${slot}`;
  const admin = postgres(requireEnv('TEST_POSTGRES_URL'), { max: 1, onnotice: () => {} });
  await admin`drop database if exists ${admin(name)} with (force)`;
  await admin`create database ${admin(name)} template keytally_template`;
  await admin.end();
  const env = {
    DATABASE_URL: withPath(requireEnv('TEST_POSTGRES_URL'), name),
    REDIS_URL: withPath(requireEnv('TEST_REDIS_URL'), slot),
    CLICKHOUSE_URL: withPath(requireEnv('TEST_CLICKHOUSE_URL'), name),
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    LOG_LEVEL: 'info',
    PORT: '0',
    // Tests fail to authenticate more often than a client may. The test of that limit sets its own.
    FAILED_AUTH_PER_MINUTE: '1000000000',
    CALLS_PER_SECOND: '1000000',
    // A busy machine leaves no call undecided. Tests of the deadlines set their own.
    VERIFY_DEADLINE_MS: '10000',
    REQUEST_DEADLINE_MS: '20000',
    QUOTA_API_PER_SECOND: '1000000',
    QUOTA_VERIFY_PER_SECOND: '1000000',
    ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
    // Topics of its own, on the run's broker.
    ...(process.env.TEST_KAFKA_BROKERS && { KAFKA_BROKERS: process.env.TEST_KAFKA_BROKERS, KAFKA_TOPIC_PREFIX: name }),
    ...settings,
  };
  if (settings.CLICKHOUSE_URL === undefined) await copyBooks(name);
  else await migrateBooks(env);
  return env;
}

// A test's own server has no template.
async function migrateBooks({ DATABASE_URL, CLICKHOUSE_URL }: Record<string, string>): Promise<void> {
  const sql = connectPostgres(DATABASE_URL!, { max: 1 });
  await migrateClickHouse(CLICKHOUSE_URL!, { sql }).finally(() => sql.end());
}

// An api would open what is empty only after a second, with a thousand queries.
async function openUp(sql: Sql, redis: ShardedRedis): Promise<void> {
  await redis.connected(60_000);
  await sql`update shards set epoch = 1`;
  const { history, horizon } = await postgresPosition(sql);
  const openedAt = await redis.now();
  await openEmptied(redis, { epoch: 1, checkpoint: horizon, history, openedAt, writes: openedAt });
}

/** Empties the run's Redis of a slot, and opens its shards, which then say this of themselves. */
export async function openEmptied(redis: ShardedRedis, meta: Record<string, string | number>): Promise<void> {
  const { client, runId } = redis.node(0);
  const pipeline = client.pipeline().flushdb();
  for (const shard of ALL_SHARDS) pipeline.hset(keyspace.meta(shard), { owner: runId(), ...meta });
  await runPipeline(redis.clock, pipeline, 60_000);
}

/** Makes a database of the books as the run's template is. */
async function copyBooks(name: string): Promise<void> {
  const client = createClient({ url: requireEnv('TEST_CLICKHOUSE_URL') });
  const run = (query: string) => client.command({ query });
  const query = `select name from system.tables where database = 'keytally_template'`;
  const tables = await (await client.query({ query, format: 'JSONEachRow' })).json<{ name: string }>();
  await run(`create database if not exists ${name}`);
  for (const table of tables)
    await run(`create table if not exists ${name}.${table.name} as keytally_template.${table.name}`);
  await run(`insert into ${name}.schema_migrations select * from keytally_template.schema_migrations`);
  await client.close();
}

// Each program as in production: with the rights of its own role, or with no access to Postgres at all.
const databaseUrls: Partial<Record<Program, string>> = {
  api: 'TEST_API_POSTGRES_URL',
  consumer: 'TEST_CONSUMER_POSTGRES_URL',
  webhooks: 'TEST_WEBHOOKS_POSTGRES_URL',
};

function environmentOf(program: Program, env: Record<string, string>): Record<string, string> {
  const { DATABASE_URL, REDIS_URL, CLICKHOUSE_URL, ...others } = env;
  const login = databaseUrls[program];
  return {
    ...others,
    REDIS_URL: asUserOf(program, REDIS_URL!, 'REDIS'),
    CLICKHOUSE_URL: asUserOf(program, CLICKHOUSE_URL!, 'CLICKHOUSE'),
    ...(login && { DATABASE_URL: withLogin(DATABASE_URL!, requireEnv(login)) }),
  };
}

// A test's own server has no users. The address of a cluster is a list, and no URL.
function asUserOf(program: Program, url: string, server: 'REDIS' | 'CLICKHOUSE'): string {
  const login = process.env[`TEST_${program.toUpperCase()}_${server}_URL`];
  return login && new URL(login).host === URL.parse(url)?.host ? withLogin(url, login) : url;
}

async function newWorkspace(sql: Sql, teamId: string): Promise<string> {
  const id = newId('ws');
  await sql`insert into workspaces (id, team_id, name) values (${id}, ${teamId}, 'elsewhere')`;
  return id;
}

async function makeToken(
  sql: Sql,
  redis: ShardedRedis,
  {
    teamId,
    granted,
    workspaceIds,
  }: { teamId: string; granted: readonly Permission[]; workspaceIds?: string[] | undefined },
): Promise<string> {
  const shard = randomShard();
  const text = makeKeyText('kt', shard);
  const id = newId('tok');
  await sql`
    insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions, workspace_ids)
    values (${id}, ${teamId}, 'test', ${hashKeyText(text)}, '', ${shard}, ${[...granted]}, ${workspaceIds ?? null})`;
  const changes = await sql<StoredChange[]>`
    insert into changes (kind, entity_id, shard) values ('token', ${id}, ${shard}) returning id, kind, entity_id, shard`;
  await applyChanges(sql, redis, changes);
  await sql`update changes set applied_at = now() where id = ${changes[0]!.id}`;
  return text;
}

function requireEnv(name: string): string {
  const value = process.env[name];
  if (!value)
    throw new Error(`${name} is not set: tests run on real servers, start them with make test FILE=<part of its path>`);
  return value;
}

// A test holds a transaction open while our programs work, however long a busy machine takes.
function withEndlessPauses(url: string): string {
  const result = new URL(url);
  result.searchParams.set('idle_in_transaction_session_timeout', '0');
  return result.href;
}

export function withLogin(url: string, login: string): string {
  const result = new URL(url);
  ({ username: result.username, password: result.password } = new URL(login));
  return result.href;
}

function withPath(url: string, path: string): string {
  const result = new URL(url);
  result.pathname = `/${path}`;
  return result.href;
}
