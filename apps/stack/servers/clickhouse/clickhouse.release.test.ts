import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { clickhouseProgram } from '../clickhouse-program.ts';
import { record, writeRecords } from '../../process/leftovers.ts';
import { freePorts } from '../../process/ports.ts';
import { stopProcess } from '../../process/processes.ts';
import { eventually } from '../../../../tests/helpers/eventually.ts';
import { start, untilReady, type Started } from '../../process/program.ts';

// On a server of its own, since the tests kill it.
const folder = join(process.env.TEST_FOLDER ?? '', 'clickhouse');
const log = join(folder, 'clickhouse.log');
const answers = join(folder, 'data', 'answers');
const password = randomUUID();
const ENDLESS = 'select number, toString(number) from numbers(100000000000) format CSV';
const passwords = { keytally: password, keytally_api: randomUUID(), keytally_consumer: randomUUID() };
let running: Started;

mkdirSync(folder, { recursive: true });
const [port = 0] = await freePorts(1);
const program = clickhouseProgram({ folder: join(folder, 'data'), port, passwords });
const url = `http://127.0.0.1:${port}`;
await startServer();
await post('create database books');
const client = createClient({
  url,
  username: 'keytally',
  password,
  database: 'books',
  log: { level: ClickHouseLogLevel.OFF },
  clickhouse_settings: { async_insert: 0 },
});
const columns = `id UInt64, text String, micros Int64, at DateTime64(3, 'UTC')`;
await client.command({ query: `create table lines (${columns}) engine = ReplacingMergeTree order by id` });

test.after(async () => {
  await client.close();
  await stopProcess(running, 'SIGKILL', 1_000);
});

test('an answer that is waited for comes whole and in order, in the format asked for', async () => {
  const query = `with 'a;"b' as text select number as n, text, toDecimal128(n, 6) / 1000000 as amount from numbers(200000) order by n FORMAT CSVWithNames`;
  const answer = await ask(query, '&output_format_csv_crlf_end_of_line=1');
  const text = await answer.text();
  assert.equal([answer.status, text.length], [200, Number(answer.headers.get('content-length'))]);
  const lines = text.split('\r\n');
  assert.equal([lines.length, lines.at(-2)], [200_002, '199999,"a;""b",0.199999']);
  for (const [i, line] of lines.slice(1, -1).entries()) assert.ok(line.startsWith(`${i},`), line);
  const parquet = Buffer.from(await (await ask('select 1 as a from numbers(3) format Parquet')).arrayBuffer());
  assert.equal([parquet.subarray(0, 4).toString(), parquet.subarray(-4).toString()], ['PAR1', 'PAR1']);
  assert.equal(readdirSync(answers), []);
  for (const [asked, body, expected] of [
    ['', "select 1, 'a;b' -- c; d\n;", '1\ta;b\n'],
    ['default_format=CSV', 'select 1 as x, 2', '1,2\n'],
    ['default_format=CSV', 'select 1 as x format JSONEachRow', '{"x":1}\n'],
    ['query=select%20*%20from%20', '(select 3)', '3\n'],
  ] as const)
    assert.is(await (await request(`${url}/?${asked}`, body)).text(), expected);
});

test('an answer that is too large, fails, writes or is not waited for leaves nothing, and ends', async () => {
  for (const [query, settings, code] of [
    [ENDLESS, '&max_result_bytes=1000000', '396'],
    ["select throwIf(number = 900000, 'told') from numbers(1000000) format CSV", '', '395'],
    ['insert into books.lines (id) values (7)', '', '164'],
  ] as const)
    assert.is(codeOf(await ask(query, settings)), code, query);
  const spooling =
    "select count() from system.processes where query like '%nto outfile%' and query not like '%system.processes%'";
  const leaving = new AbortController();
  const left = ask(ENDLESS, '', leaving.signal).catch(String);
  await eventually('it runs', async () => (await (await post(spooling)).text()) === '1\n');
  leaving.abort();
  await left;
  await eventually('it ended', async () => (await (await post(spooling)).text()) === '0\n');
  await eventually('nothing is left', async () => readdirSync(answers).length === 0);
});

test('inserted rows survive kill -9, and what an answer had written is gone', async () => {
  await client.insert({ table: 'lines', values: [{ id: 1_000_000 }], format: 'JSONEachRow' });
  const cut = ask(ENDLESS).catch(() => 'cut off');
  await eventually('it is written', async () => readdirSync(answers).length === 1);
  process.kill(running.pid, 'SIGKILL');
  await running.ended;
  assert.is(await cut, 'cut off');
  await startServer();
  assert.equal(readdirSync(answers), []);
  assert.equal(await rows('select count() as n from lines final where id = 1000000'), [{ n: 1 }]);
});

test('what the disk did not take is not acknowledged, and what a merge made of it not in force', async () => {
  const query = 'create table texts (id UInt64, text String) engine = ReplacingMergeTree order by id';
  await client.command({ query });
  const sent = new Map<number, string>();
  const insert = async (bytes: number) => {
    const [id, text] = [sent.size, randomBytes(bytes).toString('hex')];
    await client.insert({ table: 'texts', values: [{ id, text }], format: 'JSONEachRow' });
    sent.set(id, text);
  };
  // A file can hold one text, and not two.
  for (const bytes of [40_000, 40_000]) await insert(bytes);
  for (const write of [
    () => insert(80_000),
    () => client.command({ query: 'optimize table texts final' }),
    () => ask('select number from numbers(50000)'),
    // Until so many parts are there that they are merged.
    async () => {
      for (;;) await insert(40_000);
    },
  ]) {
    // Node ignores the signal that says so, and the write fails.
    await promisify(execFile)('prlimit', ['--pid', String(running.pid), '--fsize=100000:']);
    assert.is(await write().catch(() => 'cut off'), 'cut off');
    assert.is(await running.ended, 'was ended by SIGKILL');
    await startServer();
    const read = (await rows('select id, text from texts final')) as { id: number; text: string }[];
    const kept = new Map(read.map(({ id, text }) => [id, text]));
    const missing = [...sent].filter(([id, text]) => kept.get(id) !== text).map(([id]) => id);
    assert.equal(missing, []);
  }
});

const codeOf = ({ headers }: Response) => headers.get('x-clickhouse-exception-code');

function request(address: string, body: string, signal?: AbortSignal): Promise<Response> {
  const authorization = `Basic ${Buffer.from(`keytally:${password}`).toString('base64')}`;
  return fetch(address, { method: 'POST', headers: { authorization }, body, ...(signal && { signal }) });
}

function post(body: string): Promise<Response> {
  return request(url, body);
}

/** Asks for an answer that is whole before any of it is sent. */
function ask(body: string, settings = '', signal?: AbortSignal): Promise<Response> {
  return request(`${url}/?wait_end_of_query=1&readonly=2${settings}`, body, signal);
}

async function startServer(): Promise<void> {
  running = await start(program, log);
  // Written down, so that the run stops it even if this file is cut off.
  writeRecords(folder, [record(program, running)]);
  await untilReady(program, running, log);
}

async function rows(query: string): Promise<unknown[]> {
  return (await client.query({ query, format: 'JSONEachRow' })).json();
}
