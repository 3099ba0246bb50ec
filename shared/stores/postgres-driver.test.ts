import { createServer } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { emptyPostgres } from '../../tests/helpers/world.ts';
import driver from './postgres-driver.ts';
import { listen } from '../../tests/helpers/listen.ts';
import { connectPostgres, isPostgresConnectionError, type Query, type Sql } from './postgres.ts';

const url = await emptyPostgres('driver');
const admin = connectPostgres(url, { max: 1 });
await admin`create table written (what text)`;
test.after(() => admin.end());

const poolOf = (max: number) => driver(url, { max, onnotice: () => {} }) as Sql;
const outcomeOf = (promise: Promise<unknown>) => promise.catch((error: unknown) => error);
const isLost = (outcome: unknown) => assert.ok(isPostgresConnectionError(outcome), String(outcome));

test('every statement of a transaction fails once its connection has ended, and none runs outside of it', async () => {
  const sql = poolOf(2);
  for (let i = 0; i < 5; i++) {
    const outcomes: unknown[] = [];
    const done = Promise.withResolvers<void>();
    // Other statements soon take the place of the connection.
    const others = Array.from({ length: 20 }, () => outcomeOf(sql`select 1`));
    const transaction = sql.begin(async (tx) => {
      await tx`insert into written values ('before')`;
      await endOf(tx);
      for (let j = 0; j < 3; j++) outcomes.push(await outcomeOf(tx`insert into written values (${`after ${j}`})`));
      outcomes.push(await outcomeOf(tx.unsafe(`insert into written values ('after')`)));
      outcomes.push(await outcomeOf(tx.savepoint((inner) => inner`insert into written values ('after')`)));
      done.resolve();
    });
    isLost(await outcomeOf(transaction));
    await Promise.all([done.promise, ...others]);
    outcomes.forEach(isLost);
    assert.is(outcomes.length, 5);
  }
  assert.is((await admin`select from written`).length, 0);
  await sql.end();
});

test('a statement has its own rows alone, whatever came of one that failed before it', async () => {
  const pool = poolOf(1);
  const failed = await outcomeOf(pool`select 1 / (3 - i) as row from generate_series(1, 3) as i`);
  assert.is((failed as { code?: string }).code, '22012');
  assert.equal([...(await pool`select 1 as row`)], [{ row: 1 }]);
  await pool.end();
});

test('a statement fails soon where each connection ends before it is ready, and so does its pool', async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => {}).end();
  });
  const { port } = await listen(server);
  const pool = connectPostgres(`postgres://nobody:none@127.0.0.1:${port}/none`, { max: 1 });
  isLost(await outcomeOf(pool`select 1`));
  assert.is(connections, 2);
  const last = outcomeOf(pool`select 1`);
  await pool.end();
  isLost(await last);
});

test('Postgres ends the sessions of a machine that died, and the locks that they hold, within a minute', async () => {
  const sql = connectPostgres(url, { max: 1 });
  const [row] = await sql<[{ idle: number; interval: number; count: number; lostMs: number; isTcp: boolean }]>`
    select current_setting('tcp_keepalives_idle')::int as idle, current_setting('tcp_keepalives_interval')::int as interval,
      current_setting('tcp_keepalives_count')::int as count, inet_server_addr() is not null as is_tcp,
      (select setting::int from pg_settings where name = 'tcp_user_timeout') as lost_ms`;
  await sql.end();
  assert.ok(row.isTcp);
  assert.ok(row.idle > 0 && row.idle + row.interval * row.count <= 60, JSON.stringify(row));
  assert.ok(row.lostMs > 0 && row.lostMs <= 60_000, JSON.stringify(row));
});

async function endOf(query: Query): Promise<void> {
  const [{ isGone }] = await admin<[{ isGone: boolean }]>`
    select pg_terminate_backend(${await pidOf(query)}, 60000) as is_gone`;
  assert.ok(isGone);
}

async function pidOf(query: Query): Promise<number> {
  const [row] = await query<[{ pid: number }]>`select pg_backend_pid() as pid`;
  return row.pid;
}
