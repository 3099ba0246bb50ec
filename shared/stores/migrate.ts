import { readdirSync, readFileSync } from 'node:fs';
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import { systemClock } from '../runtime/clock.ts';
import { exactOnCluster } from './clickhouse.ts';
import type { Query, Sql, Transaction } from './postgres.ts';

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
  return { postgres: await appliedTo(sql), clickhouse: await appliedToBooks(client) };
}

/**
 * Runs the numbered files of sql/postgres that this database has not seen; each file is one transaction, which begins again
 * where a long transaction, such as a backup's, keeps it from a table. Gives their names. If one fails, those before it stay applied, and the error names it. With `only`, those among them alone: for a backup of an
 * earlier version, whose rows are migrated after they were loaded.
 */
export async function migratePostgres(sql: Sql, { only, say }: PostgresMigration = {}): Promise<string[]> {
  return runMissing(sql, migrationFiles('postgres', only), say, async (tx, { name, text }) => {
    await tx`create table if not exists schema_migrations (name text primary key, applied_at timestamptz not null default now())`;
    if ((await appliedTo(tx)).includes(name)) return false;
    await tx`select set_config('lock_timeout', ${String(WAITS_FOR_TABLE_MS)}, true)`;
    await onceTablesAreFree(() => tx.savepoint((tried) => tried.unsafe(text)));
    await tx`insert into schema_migrations (name) values (${name})`;
    return true;
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
  await makeBooks(url, cluster);
  // A migration may read all events.
  const client = createClient({
    url,
    request_timeout: MIGRATED_WITHIN_MS,
    clickhouse_settings: { ...keepAlive, ...(cluster !== '' && exactOnCluster) },
    log: QUIET,
  });
  const run = (statement: string) => client.command({ query: onCluster(statement, cluster) });
  try {
    await run(createMigrations);
    return await runMissing(sql, migrationFiles('clickhouse', only), say, async (_, { name, text }) => {
      if ((await appliedToBooks(client)).includes(name)) return false;
      for (const statement of statements(text)) await run(statement);
      await client.insert({ table: 'schema_migrations', values: [{ name }], format: 'JSONEachRow', columns: ['name'] });
      return true;
    });
  } finally {
    await client.close();
  }
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

/**
 * Runs files, each in a transaction of Postgres that has the lock, and gives those that ran. Of two programs that migrate, the second
 * finds nothing left to do. The lock ends with its connection.
 */
async function runMissing(
  sql: Sql,
  files: MigrationFile[],
  say: PostgresMigration['say'] = () => {},
  run: (tx: Transaction, file: MigrationFile) => Promise<boolean>,
): Promise<string[]> {
  const done: string[] = [];
  for (const file of files) {
    const migrate = async (tx: Transaction) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      const [{ isOurs }] = await tx<[{ isOurs: boolean }]>`
        select pg_try_advisory_xact_lock(hashtext('keytally migrations')) as is_ours`;
      if (!isOurs) return 'locked';
      if (await run(tx, file)) done.push(file.name);
      return 'done';
    };
    const tryOnce = () =>
      sql.begin(migrate).catch((error: unknown) => {
        throw new Error(`${file.name} failed: ${(error as Error).message}`, { cause: error });
      });
    // One query that waited, for hours maybe, would keep Postgres from cleaning up behind all changes meanwhile.
    while ((await tryOnce()) === 'locked') {
      say(() => 'waiting until another program has migrated');
      await systemClock.sleep(LOOK_AGAIN_MS);
    }
  }
  return done;
}

async function appliedTo(sql: Query): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`select name from schema_migrations order by name`;
  return rows.map(({ name }) => name);
}

async function appliedToBooks(client: ClickHouseClient): Promise<string[]> {
  const query = 'select name from schema_migrations final order by name';
  const rows = await (await client.query({ query, format: 'JSONEachRow' })).json<{ name: string }>();
  return rows.map(({ name }) => name);
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

type MigrationFile = { name: string; text: string };

function migrationFiles(store: keyof Migrations, only?: string[]): MigrationFile[] {
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
