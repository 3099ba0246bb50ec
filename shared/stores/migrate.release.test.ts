import { createClient } from '@clickhouse/client';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../tests/helpers/eventually.ts';
import { clickHouseStatements, knownMigrations, migratePostgres } from './migrate.ts';
import { connectPostgres, type Sql } from './postgres.ts';

test('on a cluster every table is a replicated one on all servers, and nothing else differs', async () => {
  const plain = clickHouseStatements('keytally', '');
  const replicated = clickHouseStatements('keytally', 'main');
  assert.is(plain.length, replicated.length);
  assert.is(replicated[0], 'create database if not exists `keytally` on cluster `main`');
  for (const [i, statement] of replicated.entries()) {
    if (statement.startsWith('insert ')) {
      assert.is(statement, plain[i]);
      continue;
    }
    assert.match(statement, /^(create (database|table) if not exists|alter table) \S+ on cluster `main`/);
    if (i > 0 && statement.startsWith('create ')) assert.match(statement, /^engine = ReplicatedReplacingMergeTree/m);
    const back = statement.replace(' on cluster `main`', '').replace('engine = Replicated', 'engine = ');
    assert.is(back, plain[i]);
  }
});

test('ClickHouse reads the statements for a cluster', async () => {
  const client = createClient({ url: process.env.TEST_CLICKHOUSE_URL! });
  for (const query of clickHouseStatements('keytally', 'main')) {
    const result = await client.query({ query: 'select formatQuery({query:String}) as sql', query_params: { query } });
    const { data } = await result.json<{ sql: string }>();
    assert.match(data[0]!.sql, query.startsWith('insert ') ? /^INSERT INTO/ : /ON CLUSTER main/);
  }
  await client.close();
});

test('a migration that fails leaves those before it applied, and the error names it', async () => {
  await withEmptyDatabase(async (sql) => {
    const all = knownMigrations().postgres;
    const failing = all.find((name) => name.startsWith('0006'))!;
    await sql`create table webhook_events (in_the_way text)`;
    const error = await migratePostgres(sql).catch((error: Error) => error);
    assert.instance(error, Error);
    assert.match((error as Error).message, new RegExp(`^${failing} failed: relation "webhook_events" already exists`));
    const before = all.filter((name) => name < failing);
    assert.equal(await applied(sql), before);
    const [made] =
      await sql`select to_regclass('audit_log') is not null as before, to_regclass('team_usage') is not null as after`;
    assert.equal({ ...made }, { before: true, after: false });
    const [undone] = await sql`select to_regclass('webhooks') is not null as is_there`;
    assert.is(undone!.isThere, false, 'what the file had made before it failed is undone');

    await sql`drop table webhook_events`;
    assert.equal(await migratePostgres(sql), all.slice(before.length));
    assert.equal(await applied(sql), all);
    assert.equal(await migratePostgres(sql), []);
  });
});

test('of two migrators one waits, stops nobody else, and goes on when the other one dies', async () => {
  await withEmptyDatabase(async (sql, connect) => {
    const all = knownMigrations().postgres;
    await migratePostgres(sql, { only: all.slice(0, 2) });
    const [first, second] = [connect(), connect()];
    let died: Promise<unknown>;
    let finished: Promise<string[]>;
    await sql.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await tx`lock table workspaces in access share mode`;
      died = migratePostgres(first).catch((error: unknown) => error);
      const holder = await eventually('the first one waits for a table', async () => {
        const [row] = await sql<{ pid: number }[]>`
          select pid from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database()
          where not granted and locktype = 'relation' and relation = 'workspaces'::regclass`;
        return row?.pid;
      });
      const done = await applied(sql);
      assert.ok(done.length > 2 && done.length < all.length, `each file is a transaction: ${done.join(', ')}`);
      // It gives up where it can't have the table soon, and begins again: who reads meanwhile is not behind it for long.
      await sql`select from workspaces`;
      let said = '';
      finished = migratePostgres(second, { say: (text) => (said = text()) });
      await eventually('the second one waits for the first', async () =>
        /until another program has migrated/.test(said),
      );
      await sql`select pg_terminate_backend(${holder})`;
      assert.match(String(await died), /000\d_\w+\.sql failed: /);
    });
    const doneBySecond = await finished!;
    assert.ok(doneBySecond.length > 0);
    assert.equal(doneBySecond, all.slice(all.length - doneBySecond.length));
    assert.equal(await applied(sql), all);
  });
});

async function applied(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`select name from schema_migrations order by name`;
  return rows.map(({ name }) => name);
}

/** Runs a test in a database of its own; `connect` makes another pool of one connection to it. */
async function withEmptyDatabase(run: (sql: Sql, connect: () => Sql) => Promise<void>): Promise<void> {
  const url = new URL(process.env.TEST_POSTGRES_URL!);
  const name = `migrate_${process.env.TEST_SLOT}`;
  const admin = connectPostgres(url.href, { max: 1 });
  await admin`drop database if exists ${admin(name)} with (force)`;
  await admin`create database ${admin(name)}`;
  url.pathname = `/${name}`;
  const pools = [connectPostgres(url.href, { max: 3 })];
  const connect = (): Sql => {
    const pool = connectPostgres(url.href, { max: 1, statementTimeoutMs: 0 });
    pools.push(pool);
    return pool;
  };
  try {
    await run(pools[0]!, connect);
  } finally {
    await Promise.all(pools.map((pool) => pool.end({ timeout: 1 })));
    await admin`drop database if exists ${admin(name)} with (force)`;
    await admin.end();
  }
}
