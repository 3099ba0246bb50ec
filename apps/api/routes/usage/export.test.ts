import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { once } from 'node:events';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readRecords } from '../../../stack/process/leftovers.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { inLongForm } from '../../../../tests/helpers/long-form.ts';
import { eventually, spawnWorld, type Spawned, type ProcessWorld } from '../../../../tests/helpers/world.ts';
import { openAnswers } from '../../../../tests/helpers/open-answers.ts';
import { request } from '../../../../tests/helpers/request.ts';
import { watchMemory } from '../../../../tests/history/memory.ts';

const PATH = '/api/v1/usage';
// One row each, of more bytes than the connection takes in before its reader reads.
const ROWS = 200_000;
// Makes a file of more than 200 MB where it is asked for.
const ROUTE_BYTES = 1_000;
const DAY = '2026-03-29';
const run = dirname(process.env.TEST_FOLDER ?? '');
let world: ProcessWorld;
let books: ClickHouseClient;
let asked: Record<string, string>;
let billingId: string;
const test = suite('usage export');
const longTest = inLongForm(test);
test.before(async () => {
  world = await spawnWorld();
  books = createClient({ url: world.env.CLICKHOUSE_URL! });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  const meter = { workspaceId: workspace.id, externalMeterId: '=acme' };
  billingId = (await world.call('post', '/api/v1/customer-billing', meter)).body.billing.id;
  asked = { workspaceId: workspace.id, from: DAY, to: DAY };
  await books.command({
    query: `
      insert into usage_events (workspace_id, billing_id, day, time, event_id, key_id, usage_name, route, cost_micros)
      select {workspaceId:String}, {billingId:String}, {day:Date}, {day:Date}, concat('evt_', toString(number)), {key:String},
             concat('=', leftPad(toString(number), 120, '0')), repeat('r', {bytes:UInt16}), number from numbers({rows:UInt32})`,
    query_params: { workspaceId: workspace.id, billingId, day: DAY, key: newId('key'), rows: ROWS, bytes: ROUTE_BYTES },
  });
  await world.sql`insert into usage_marks (workspace_id, billing_id, day) values (${workspace.id}, ${billingId}, ${DAY})`;
});
test.after(async () => {
  await books?.close();
  await world?.stop();
});

test('a long CSV has one header and each row once, and as many bytes as it says', async () => {
  const answer = await get({ format: 'csv' });
  assert.is(answer.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  const text = await answer.text();
  assert.is(Buffer.byteLength(text), Number(answer.headers.get('content-length')));
  const lines = text.split('\r\n');
  const header = '"start","billingId","externalMeterId","usageName","totalBillingUsage","events"';
  assert.equal([lines[0], lines.at(-1), lines.length], [header, '', ROWS + 2]);
  assert.not.ok(lines.includes(header, 1));
  const names = new Set(lines.slice(1, -1).map((line) => line.split(',')[3]));
  assert.is(names.size, ROWS);
  assert.is(lines[2], `"${DAY}T00:00:00+00:00","${billingId}","'=acme","'=${'0'.repeat(119)}1",0.000001,1`);
});

test('a Parquet file has decimals and instants, texts as they are, and the sums of the answer', async () => {
  const answer = await get({}, { Accept: 'application/vnd.apache.parquet' });
  assert.is(answer.headers.get('content-disposition'), 'attachment; filename="usage.parquet"');
  mkdirSync(process.env.TEST_FOLDER!, { recursive: true });
  const file = join(process.env.TEST_FOLDER!, 'usage.parquet');
  writeFileSync(file, Buffer.from(await answer.arrayBuffer()));
  const read = async (query: string) => (await books.query({ query, format: 'JSONEachRow' })).json<any>();
  const types = (await read(`describe file('${file}', Parquet)`)).map(({ name, type }) => `${name} ${type}`);
  assert.equal(types, [
    "start DateTime64(3, 'UTC')",
    'billingId Nullable(String)',
    'externalMeterId Nullable(String)',
    'usageName Nullable(String)',
    'totalBillingUsage Decimal(38, 6)',
    'events UInt64',
  ]);
  const [row] = await read(`
    select count() as rows, uniqExact(usageName) as names, toString(sum(totalBillingUsage)) as total, min(usageName) as name,
           any(externalMeterId) as meter, toUnixTimestamp64Milli(max(start)) as ms
    from file('${file}', Parquet)`);
  const total = ((ROWS / 2) * (ROWS - 1)) / 1e6;
  const name = `=${'0'.repeat(120)}`;
  assert.equal(row, { rows: ROWS, names: ROWS, total: String(total), name, meter: '=acme', ms: Date.parse(DAY) });
});

longTest('a file of more than 200 MB takes the api no memory for it', async () => {
  const { pid } = world.api.process;
  const memory = watchMemory(() => ({ api: pid }));
  memory.reset();
  const before = memory.peaks().get('api')!;
  const answer = await get({ format: 'csv', groupBy: 'usageName,route' });
  let bytes = 0;
  for await (const chunk of answer.body!) bytes += chunk.length;
  const grown = memory.peaks().get('api')! - before;
  memory.stop();
  assert.ok(bytes > ROWS * ROUTE_BYTES, String(bytes));
  assert.ok(grown < 100, `${grown} MB more for ${bytes} bytes`);
});

test('a client that goes away ends the query, and leaves no file, whether it waits or reads', async () => {
  const waiting = new AbortController();
  const answering = get({ format: 'csv' }, {}, waiting.signal);
  const left = answering.then((answer) => answer.arrayBuffer()).catch(() => 'gone');
  await eventually('it is written', async () => filesThere() > 0);
  waiting.abort();
  assert.is(await left, 'gone');
  await nothingLeft();
  const reading = await get({ format: 'csv' });
  assert.is(reading.status, 200);
  assert.ok(openFiles() > 0, 'the file is open while it is read');
  await reading.body!.cancel();
  await nothingLeft();
});

test('a team has two exports under way; a third is a 429 until one of them is read', async () => {
  const [first, second] = await Promise.all([get({ format: 'csv' }), get({ format: 'csv' })]);
  const refused = await world.call('get', path({ format: 'csv' }));
  assert.equal([refused.status, refused.body.error.code], [429, 42922]);
  // Rows are no export.
  assert.is((await world.call('get', path({ limit: '1' }))).status, 200);
  await first.arrayBuffer();
  await eventually('there is room', async () => {
    const answer = await get({ format: 'csv' });
    await answer.body!.cancel();
    return answer.status === 200;
  });
  await second.body!.cancel();
});

test('an export above the limit of bytes is refused before its first byte, and leaves nothing', async () => {
  const strict = await world.start('api', { EXPORT_MAX_BYTES: '1000000' });
  try {
    for (const format of ['csv', 'parquet']) {
      const refused = await ask(strict, { format });
      assert.equal([refused.status, refused.body.error.code], [400, 40023], format);
    }
    assert.is((await ask(strict, { format: 'csv', groupBy: 'billing' })).status, 200);
    await nothingLeft();
  } finally {
    await strict.stop();
  }
});

test('sums that take longer than a request may are a 400 that says how to ask for less', async () => {
  const { url, hurry, close } = await hurriedBooks();
  try {
    const hurried = await world.start('api', { CLICKHOUSE_URL: url });
    hurry();
    for (const query of [{ groupBy: 'usageName' }, { groupBy: 'key' }, { format: 'csv' }]) {
      const refused = await ask(hurried, query);
      assert.equal([refused.status, refused.body.error.code], [400, 40021], JSON.stringify(query));
    }
    await hurried.stop();
  } finally {
    close();
  }
});

test.run();

function path(query: Record<string, string>): string {
  return `${PATH}?${new URLSearchParams({ ...asked, ...query }).toString()}`;
}

function get(query: Record<string, string>, headers: Record<string, string> = {}, signal?: AbortSignal) {
  return fetch(world.api.url + path(query), {
    headers: { Authorization: `Bearer ${world.team.token}`, ...headers },
    ...(signal && { signal }),
  });
}

function ask(api: Spawned, query: Record<string, string>) {
  return request(api.url + path(query), 'get', { token: world.team.token });
}

/** The books behind a proxy that can give each query a thousandth of a second: too little for any that reads much. */
async function hurriedBooks() {
  const server = new URL(world.env.CLICKHOUSE_URL!);
  let isHurried = false;
  const proxy = createServer((incoming, answer) => {
    const url = new URL(incoming.url!, server);
    if (isHurried) url.searchParams.set('max_execution_time', '0.001');
    const { method, headers } = incoming;
    const outgoing = httpRequest(url, { method: method!, headers }, (given) => {
      answer.writeHead(given.statusCode!, given.headers);
      given.pipe(answer);
    });
    outgoing.on('error', () => answer.destroy());
    incoming.pipe(outgoing);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const wired = new URL(server);
  wired.port = String((proxy.address() as AddressInfo).port);
  const close = () => {
    proxy.closeAllConnections();
    proxy.close();
  };
  return { url: wired.href, hurry: () => void (isHurried = true), close };
}

async function queries(): Promise<number> {
  const query = `select count() as n from system.processes where query like '%function file%answer-%' and query not like '%system.processes%'`;
  const [row] = await (await books.query({ query, format: 'JSONEachRow' })).json<{ n: string }>();
  return Number(row!.n);
}

function openFiles(): number {
  const [server] = readRecords(run).filter(({ name }) => name === 'clickhouse');
  return openAnswers(server!.pid);
}

/** Other test files may have exports of their own on the same server for a moment. */
async function nothingLeft(): Promise<void> {
  await eventually('no query runs', async () => (await queries()) === 0);
  await eventually('no file is open', async () => openFiles() === 0);
  await eventually('no file lies there', async () => filesThere() === 0);
}

function filesThere(): number {
  return readdirSync(join(run, 'clickhouse/answers')).length;
}
