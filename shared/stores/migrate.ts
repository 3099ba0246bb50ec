import { readdirSync, readFileSync } from 'node:fs';
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import { systemClock } from '../runtime/clock.ts';
import { exactOnCluster } from './clickhouse.ts';
import type { Query, Sql } from './postgres.ts';

const directory = new URL('../../sql/', import.meta.url);
// The error names what failed.
const QUIET = { level: ClickHouseLogLevel.OFF };
const MIGRATED_WITHIN_MS = 6 * 3_600_000;
// While a statement waits for a table, every later query of that table waits behind it. Longer than a second: after that Postgres
// ends an autovacuum that holds the table (deadlock_timeout), unless the wait is over by then.
const WAITS_FOR_TABLE_MS = 1_500;
const TABLE_WITHIN_MS = 15 * 60_000;
const TRY_AGAIN_MS = 4_000;
const LOOK_AGAIN_MS = 200;
const LOCK_NOT_AVAILABLE = '55P03';
// Lines of progress keep a connection open that says nothing for long.
const keepAlive = { send_progress_in_http_headers: 1, http_headers_progress_interval_ms: '30000' } as const;

/** The migrations of both schemas, by their names. */
export type Migrations = { postgres: string[]; clickhouse: string[] };

export type PostgresMigration = {
  /** Shows how far it is. */
  say?: ((text: () => string) => void) | undefined;
  only?: string[] | undefined;
};

export type ClickHouseMigration = PostgresMigration & {
  sql: Sql;
  /** The name of the cluster whose servers all get the tables. */
  cluster?: string;
};

/** The migrations that this version of keytally has. */
export function knownMigrations(): Migrations {
  const names = (store: keyof Migrations) => migrationFiles(store).map(({ name }) => name);
  return { postgres: names('postgres'), clickhouse: names('clickhouse') };
}

/** The migrations that databases have seen. */
export async function appliedMigrations(sql: Query, client: ClickHouseClient): Promise<Migrations> {
  const postgres = await sql<{ name: string }[]>`select name from schema_migrations order by name`;
  const query = 'select name from schema_migrations final order by name';
  const clickhouse = await (await client.query({ query, format: 'JSONEachRow' })).json<{ name: string }>();
  return { postgres: postgres.map(({ name }) => name), clickhouse: clickhouse.map(({ name }) => name) };
}

/**
 * Runs the numbered files of sql/postgres that this database has not seen; each file is one transaction, which begins again
 * where a long transaction, such as a backup's, keeps it from a table. Gives their names. If one fails, those before it stay applied, and the error names it. With `only`, those among them alone: for a backup of an
 * earlier version, whose rows are migrated after they were loaded.
 */
export async function migratePostgres(sql: Sql, { only, say }: PostgresMigration = {}): Promise<string[]> {
  const files = migrationFiles('postgres', only);
  return whileNobodyMigrates({ sql, say }, async (connection, pid) => {
    await connection`create table if not exists schema_migrations (name text primary key, applied_at timestamptz not null default now())`;
    const rows = await connection<{ name: string }[]>`select name from schema_migrations`;
    const applied = new Set(rows.map((row) => row.name));
    const missing = files.filter(({ name }) => !applied.has(name));
    for (const { name, text } of missing)
      await orNamed(
        name,
        onceTablesAreFree(() => connection.unsafe(inOneTransaction(pid, name, text))),
      );
    return missing.map(({ name }) => name);
  });
}

/** Gives a role of sql/postgres this password to log in with; an empty one leaves the role as it is. */
export async function giveRolePassword(
  sql: Sql,
  role: 'keytally_api' | 'keytally_consumer' | 'keytally_webhooks',
  password: string,
): Promise<void> {
  if (password === '') return;
  const [row] = await sql<[{ statement: string }]>`
    select format('alter role %I login password %L', ${role}::text, ${password}::text) as statement`;
  await sql.unsafe(row.statement);
}

/**
 * Runs the numbered files of sql/clickhouse that this database has not seen, and makes the database first. ClickHouse
 * has no transactions: every statement of a file may run again, so that a file that was cut short does. It has no locks either:
 * one in Postgres keeps others from migrating meanwhile. With the name of a cluster, tables are replicated ones on all its servers.
 */
export async function migrateClickHouse(
  url: string,
  { sql, cluster = '', only, say }: ClickHouseMigration,
): Promise<string[]> {
  return whileNobodyMigrates({ sql, say }, async (connection, pid) => {
    await makeBooks(url, cluster);
    // A migration may read all events.
    const client = createClient({
      url,
      request_timeout: MIGRATED_WITHIN_MS,
      clickhouse_settings: { ...keepAlive, ...(cluster !== '' && exactOnCluster) },
      log: QUIET,
    });
    const requireLock = async () => {
      const [{ isHeld }] = await connection<[{ isHeld: boolean }]>`select pg_backend_pid() = ${pid} as is_held`;
      if (!isHeld) throw new Error('the connection to Postgres was lost');
    };
    try {
      await client.command({ query: onCluster(createMigrations, cluster) });
      const result = await client.query({ query: 'select name from schema_migrations final', format: 'JSONEachRow' });
      const applied = new Set((await result.json<{ name: string }>()).map((row) => row.name));
      const missing = migrationFiles('clickhouse', only).filter(({ name }) => !applied.has(name));
      for (const { name, text } of missing) {
        await orNamed(name, requireLock());
        for (const statement of statements(text))
          await orNamed(name, client.command({ query: onCluster(statement, cluster) }));
        await client.insert({
          table: 'schema_migrations',
          values: [{ name }],
          format: 'JSONEachRow',
          columns: ['name'],
        });
      }
      return missing.map(({ name }) => name);
    } finally {
      await client.close();
    }
  });
}

/** Every statement that migrateClickHouse runs on an empty database, in order. */
export function clickHouseStatements(database: string, cluster: string): string[] {
  const ofFiles = migrationFiles('clickhouse').flatMap(({ text }) => statements(text));
  const all = [`create database if not exists ${quote(database)}`, createMigrations, ...ofFiles];
  return all.map((statement) => onCluster(statement, cluster));
}

async function makeBooks(url: string, cluster: string): Promise<void> {
  const root = new URL(url);
  const database = decodeURIComponent(root.pathname.slice(1));
  root.pathname = '/';
  const server = createClient({ url: root, log: QUIET });
  const query = onCluster(`create database if not exists ${quote(database)}`, cluster);
  await server.command({ query }).finally(() => server.close());
}

// One at a time: of two programs that migrate, the second finds nothing left to do. The lock is the session's, so that it
// lasts over the transactions of all files and ends with the connection.
async function whileNobodyMigrates<Result>(
  { sql, say = () => {} }: { sql: Sql; say: PostgresMigration['say'] },
  work: (connection: Sql, pid: number) => Promise<Result>,
): Promise<Result> {
  const connection = await sql.reserve();
  try {
    // One query that waited, for hours maybe, would keep Postgres from cleaning up behind all changes meanwhile.
    for (;;) {
      const [{ pid, isOurs }] = await connection<[{ pid: number; isOurs: boolean }]>`
        select pg_backend_pid() as pid, pg_try_advisory_lock(hashtext('keytally migrations')) as is_ours`;
      if (isOurs) return await work(connection, pid);
      say(() => 'waiting until another program has migrated');
      await systemClock.sleep(LOOK_AGAIN_MS);
    }
  } finally {
    // A connection that was lost has no lock.
    await connection`select pg_advisory_unlock_all()`.catch(() => {});
    connection.release();
  }
}

// Postgres runs the statements of one query without parameters as one transaction. No file runs on
// another connection than the one that holds the lock.
function inOneTransaction(pid: number, name: string, text: string): string {
  return `
    do $$ begin
      if pg_backend_pid() <> ${pid} then raise exception 'the connection to Postgres was lost'; end if;
    end $$;
    set local lock_timeout = ${WAITS_FOR_TABLE_MS};
    ${text}
    ;
    insert into schema_migrations (name) values ('${name}')`;
}

async function onceTablesAreFree(migrate: () => Promise<unknown>): Promise<void> {
  for (const beganAt = systemClock.monotonic(); ;) {
    try {
      await migrate();
      return;
    } catch (error) {
      const isFree = (error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE;
      if (isFree || systemClock.monotonic() - beganAt > TABLE_WITHIN_MS) throw error;
      await systemClock.sleep(TRY_AGAIN_MS);
    }
  }
}

async function orNamed<Result>(name: string, migrated: Promise<Result>): Promise<Result> {
  return migrated.catch((error: unknown) => {
    throw new Error(`${name} failed: ${(error as Error).message}`, { cause: error });
  });
}

const createMigrations = `create table if not exists schema_migrations (name String, applied_at DateTime default now())
engine = ReplacingMergeTree
order by name`;

// Our files are written for one server: a statement for a cluster differs in these two places.
function onCluster(statement: string, cluster: string): string {
  if (cluster === '') return statement;
  return statement
    .replace(
      /^(create (database|table) if not exists|alter table|drop table if exists) \S+/,
      (start) => `${start} on cluster ${quote(cluster)}`,
    )
    .replace(/^engine = (\w*MergeTree)/m, 'engine = Replicated$1');
}

function migrationFiles(store: keyof Migrations, only?: string[]): { name: string; text: string }[] {
  const folder = new URL(`${store}/`, directory);
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql') && (only?.includes(name) ?? true));
  return names.toSorted().map((name) => ({ name, text: readFileSync(new URL(name, folder), 'utf8') }));
}

// ClickHouse takes one statement at a time; in our files each ends with a semicolon at the end of a line.
function statements(text: string): string[] {
  const withoutComments = text.replace(/^\s*--.*$/gm, '');
  return withoutComments
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter(Boolean);
}

function quote(name: string): string {
  if (!/^\w+$/.test(name))
    throw new Error(
      `ClickHouse's database (in CLICKHOUSE_URL) and cluster are named with letters, digits and underscores`,
    );
  return `\`${name}\``;
}
