// A backup of one world's databases, loaded into empty ones on the same servers: row by row the same, or refused.
import { rejects } from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { buffer as bufferOf, text } from 'node:stream/consumers';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { booksProxy } from '../../../tests/helpers/books-proxy.ts';
import { emptyPostgres, eventually } from '../../../tests/helpers/world.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import { connectPostgres, type Sql } from '../../../shared/stores/postgres.ts';
import { checkBackup, loadBackup, requireMasterKey } from './load.ts';
import { masterKeysUsed, takeBackup } from './take.ts';
import { callsOf, column, makeCustomers, makeWorld, must, newWorkspace } from '../tests/helpers/calls.ts';

const quiet = () => {};
let backup: Buffer;
let target: { sql: Sql; books: Books; clickhouseUrl: string; cluster: string };

const world = await makeWorld(['verify', 'consumer']);
const { books, redis } = world;
const { make } = callsOf(world);
test.after(async () => void (await Promise.all([target?.sql.end(), target?.books.close()])));

test('a backup has every row of every table, and a load writes each as it was', async () => {
  const workspaceId = await newWorkspace(world, { name: 'odd \\ "\\n' });
  const customers = makeCustomers(world, workspaceId);
  const key = await customers.meteredKey('100');
  const metadata = { text: 'a\\nb\n"{}\u0001', deep: [{ z: 1, a: null }] };
  await make('/api/v1/api-key', { name: '\\N', workspaceId, metadata });
  await make('/api/v1/jwt', { payload: {} });
  await must(200, customers.verify({ key: key.key }));
  await make('/console/session', undefined, { 'Sec-Fetch-Site': 'same-origin', 'X-Keytally-Session': '1' });
  await insertHistory(100_500);
  await insertRefusals(100_500);

  // The consumer's jobs write to Postgres now and then.
  const before = await eventually('nothing changes during the backup', async () => {
    const rows = await everyRow(world.sql);
    backup = await take();
    return JSON.stringify(await everyRow(world.sql)) === JSON.stringify(rows) ? rows : undefined;
  });
  target = await emptyDatabases('restored');
  const { rows } = await loadBackup(target, Readable.from([backup], { objectMode: false }), quiet);
  assert.is(rows['books/usage_events'], 100_501);
  assert.is(before['sessions']!.length, 1);
  const { usage_marks: marks, ...after } = await everyRow(target.sql);
  const { usage_marks: _, ...kept } = before;
  assert.equal(after, { ...kept, sessions: [] }, 'all but sessions, which may have been ended since');
  assert.is(marks!.length, 1, 'the one day of the workspace is to be summed up again');
  for (const table of ['usage_events', 'refusals', 'recent_refusals'])
    assert.equal(await fingerprint(target.books, table), await fingerprint(books, table));
  const query = `select count() from recent_refusals where client_address != ''`;
  const addresses = await text((await target.books.client.exec({ query })).stream);
  assert.is(addresses.trim(), '0', 'none is in a file');
  assert.equal(await sequences(target.sql), await sequences(world.sql));
  const [{ old }] = await target.sql<[{ old: number }]>`
    select count(*) as old from changes where tx <> (select min(tx) from changes)`;
  assert.is(old, 0, 'no row has a transaction id of the other cluster');
});

test('a load refuses servers that hold anything; one that is cut off leaves no settings, and the next one is whole', async () => {
  await rejects(loadBackup(target, stream(backup), quiet), /holds the settings of a team already/);
  const other = await emptyDatabases('other');
  const ofNoSuperuser = new URL(process.env.TEST_API_POSTGRES_URL!);
  ofNoSuperuser.pathname = other.sql.options.database;
  const sql = connectPostgres(ofNoSuperuser.href, { max: 1 });
  await rejects(
    loadBackup({ ...other, sql }, stream(backup), quiet),
    /grant set on parameter session_replication_role/,
  );
  await sql.end();
  await rejects(loadBackup(other, stream(backup.subarray(0, backup.length - 1_000)), quiet), /cut off/);
  assert.is((await other.sql`select from teams`).length, 0);
  await loadBackup(other, stream(backup), quiet);
  await assertLoaded(other);
  await other.sql.unsafe('set session_replication_role = replica; truncate teams cascade');
  await rejects(loadBackup(other, stream(backup), quiet), /the books hold usage already/);
  await Promise.all([other.sql.end(), other.books.close()]);
});

test('a load that is cut off after Postgres was whole is finished by the same file, and by no other', async () => {
  const other = await emptyDatabases('other');
  const proxy = await booksProxy(other.clickhouseUrl, ({ body }) => {
    if (!body.toString().startsWith('drop table if exists loading_backup')) return 'passed';
    throw new Error('the machine died');
  });
  await rejects(loadBackup({ ...other, clickhouseUrl: proxy.url }, stream(backup), quiet), /hang up/);
  assert.is((await other.sql`select from teams`).length, 1);
  const another = stream(edited('"settingsAt":"2', '"settingsAt":"3'));
  await rejects(loadBackup(other, another, quiet), /holds the settings of a team already/);
  const { rows } = await loadBackup(other, stream(backup), quiet);
  assert.is(rows['books/usage_events'], 100_501);
  await assertLoaded(other);
  await rejects(loadBackup(other, stream(backup), quiet), /holds the settings of a team already/);
  await Promise.all([other.sql.end(), other.books.close()]);
});

async function assertLoaded(other: Pick<typeof target, 'sql' | 'books'>): Promise<void> {
  assert.equal(await fingerprint(other.books, 'usage_events'), await fingerprint(books, 'usage_events'));
  assert.equal(await everyRow(other.sql), await everyRow(target.sql));
}

test('a file that is damaged anywhere, cut off or something else is refused by what is wrong', async () => {
  const check = (bytes: Uint8Array) => checkBackup(stream(Buffer.from(bytes)), quiet);
  assert.is((await check(backup)).header.format, 1);
  await rejects(check(Buffer.from('#!/bin/sh\n')), /no backup made by make backup/);
  await rejects(check(Buffer.alloc(0)), /cut off/);
  for (const share of [0.01, 0.3, 0.9]) {
    await rejects(check(backup.subarray(0, Math.floor(backup.length * share))), /cut off/);
    const flipped = Buffer.from(backup);
    flipped[Math.floor(backup.length * share)]! ^= 4;
    await rejects(check(flipped), /damaged|cut off|no backup/);
  }
  for (const [from, to, told] of [
    ['"format"', '"format', /damaged: a line of it is no JSON/],
    ['0001_keys.sql', '9999_keys.sql', /a newer version of keytally made it \(9999_keys\.sql\)/],
    ['"format":1', '"format":2', /a newer version of keytally made it/],
  ] as const)
    await rejects(check(edited(from, to)), told);
});

test('a master key that does not open what is sealed is refused before anything is loaded', async () => {
  const { header } = await checkBackup(stream(backup), quiet);
  assert.is(header.sealedUnder.length, 1);
  requireMasterKey(header, [Buffer.alloc(32, 1), Buffer.from(world.env.MASTER_KEY!, 'base64')]);
  const withWrongKey = () => requireMasterKey(header, [Buffer.alloc(32, 1)]);
  assert.throws(withWrongKey, /need the master key [0-9a-f]{16}, and the one given/);
  await world.sql`
    insert into webhooks (id, team_id, workspace_id, url, events, sealed_under)
    select 'hook', team_id, id, 'https://hooks.example.com', '{month.closed}', 'another' from workspaces limit 1`;
  assert.equal(await masterKeysUsed(world.sql), [...header.sealedUnder, 'another'], 'of all that is sealed');
});

test('a backup fails, and says why, while no consumer moves the books on', async () => {
  await world.consumer!.stop();
  await rejects(take(500), /the books hold usage from before .* alone, .* is a consumer running\?/);
});

/** The backup with a text in place of another one. */
function edited(from: string, to: string): Buffer {
  return zstdCompressSync(Buffer.from(zstdDecompressSync(backup).toString('latin1').replace(from, to), 'latin1'));
}

function stream(bytes: Buffer): Readable {
  // In pieces, as a file is read.
  const starts = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, i) => i * 65_536);
  const pieces = starts.map((start) => bytes.subarray(start, start + 65_536));
  return Readable.from(pieces, { objectMode: false });
}

async function take(patienceMs = 60_000): Promise<Buffer> {
  const out = new PassThrough();
  const sql = connectPostgres(world.env.DATABASE_URL!, { max: 4, statementTimeoutMs: 0, everyTeam: true });
  const stores = { sql, redis, books, log: makeLogger('test', 'silent') };
  const taking = takeBackup({ ...stores, patienceMs, version: 'test' }, out, quiet).finally(() => sql.end());
  return (await Promise.all([bufferOf(out), taking]))[0];
}

/** Events of one record on one day, more than two pages of them. */
async function insertHistory(count: number): Promise<void> {
  await books.client.command({
    query: `insert into usage_events (workspace_id, billing_id, day, event_id, kind, key_id, usage_name, cost_micros, used_micros, epoch, seq,
              number, route, actor, reason, time, inserted_at)
            select 'w\\t', 'bill\\\\tab\\t', '2025-03-01', 'evt_' || toString(number), 'verification', 'k', 'calls', 1, number, 1, number + 1,
              0, '/a\\tb\\n', '', 'said \\\\N', '2025-03-01 00:00:00', '2025-03-01 00:00:00' from numbers(${count})`,
  });
}

/** Refusals of this minute, more than two pages of them. */
async function insertRefusals(count: number): Promise<void> {
  const texts = "'w\\t', 'DISABLED', 'DISABLED', 'key/a\\nb'";
  await books.client.command({
    query: `insert into refusals (workspace_id, status, reason, limited_by, minute, would_refuse, key_id, boot, calls)
            select ${texts}, toStartOfMinute(now('UTC')), number % 2, '/' || toString(number), 'b', number from numbers(${count})`,
  });
  await books.client.command({
    query: `insert into recent_refusals (workspace_id, status, reason, limited_by, time, refusal_id, client_address)
            select ${texts}, now64(3, 'UTC'), 'b.' || toString(number), '203.0.113.9' from numbers(${count})`,
  });
}

async function emptyDatabases(suffix: string) {
  const clickhouseUrl = `${world.env.CLICKHOUSE_URL!}_${suffix}`;
  await books.client.command({ query: `drop database if exists ${new URL(clickhouseUrl).pathname.slice(1)}` });
  const sql = connectPostgres(await emptyPostgres(suffix), { max: 2, statementTimeoutMs: 0 });
  return { sql, clickhouseUrl, cluster: '', books: connectClickHouse(clickhouseUrl) };
}

async function everyRow(sql: Sql): Promise<Record<string, string[]>> {
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
      and relname not in ('schema_migrations', 'job_watermarks') order by 1`;
  const found: Record<string, string[]> = {};
  for (const { name } of tables) {
    // A load gives rows transaction ids of the new cluster.
    const id = name === 'changes' ? ',[0-9]+,"' : '^$';
    const rows = await sql`select regexp_replace(t::text, ${id}, ',"') as line from ${sql(name)} t order by 1`;
    found[name] = column(rows, 'line');
  }
  return found;
}

async function fingerprint({ client }: Books, table: string): Promise<string> {
  const columns = table === 'recent_refusals' ? '* except client_address' : '*';
  return text((await client.exec({ query: `select count(), sum(cityHash64(${columns})) from ${table}` })).stream);
}

async function sequences(sql: Sql) {
  return sql`select sequencename, nextval(sequencename::text::regclass) as next from pg_sequences
    where sequencename <> 'usage_marks_seq' order by 1`;
}
