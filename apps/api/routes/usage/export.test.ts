import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { booksProxy, type Way } from '../../../../tests/helpers/books-proxy.ts';
import { readParquet } from '../../../../tests/helpers/parquet.ts';
import { callsOf, codesOf, joinWorld, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

// Who goes away, and who waits for a place, is in apps/api/http/exports.test.ts.
const PATH = '/api/v1/usage';
// More than the least that an export may be limited to.
const ROWS = 40_000;
const DAY = '2026-03-29';
let allowed = '8';
let gate = Promise.resolve();
const world = await joinWorld();
const { books } = world;
const calls = callsOf(world);
const proxy = await booksProxy(world.env.CLICKHOUSE_URL!, async (request): Promise<Way> => {
  request.path = request.path.replace(/max_execution_time=\d+/, `max_execution_time=${allowed}`);
  if (request.path.includes('wait_end_of_query')) await gate;
  return 'passed';
});
// An api that gives an export a megabyte. Its queries may take as long as `allowed` says, and those of exports wait for `gate`.
const strict = (await world.start('api', { EXPORT_MAX_BYTES: '1000000', CLICKHOUSE_URL: proxy.url })).url;
const workspaceId = await newWorkspace(world);
const meter = { workspaceId, externalMeterId: '=acme' };
const billingId: string = (await calls.make('/api/v1/customer-billing', meter)).id;
const asked = { workspaceId, from: DAY, to: DAY };
await books.client.command({
  query: `
    insert into usage_events (workspace_id, billing_id, day, time, event_id, usage_name, cost_micros)
    select {workspaceId:String}, {billingId:String}, {day:Date}, {day:Date}, concat('evt_', toString(number)),
           concat('=', leftPad(toString(number), 120, '0')), number from numbers({rows:UInt32})`,
  query_params: { workspaceId, billingId, day: DAY, rows: ROWS },
});
await world.sql`insert into usage_marks (workspace_id, billing_id, day) values (${workspaceId}, ${billingId}, ${DAY})`;

test('a long CSV has one header and each row once, and as many bytes as it says', async () => {
  const answer = await get({ format: 'csv' });
  assert.is(answer.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  const text = await answer.text();
  assert.is(Buffer.byteLength(text), Number(answer.headers.get('content-length')));
  const lines = text.split('\r\n');
  const header = '"start","billingId","externalMeterId","usageName","totalBillingUsage","events","partial"';
  assert.equal([lines[0], lines.at(-1), lines.length], [header, '', ROWS + 2]);
  assert.not.ok(lines.includes(header, 1));
  const names = new Set(lines.slice(1, -1).map((line) => line.split(',')[3]));
  assert.is(names.size, ROWS);
  assert.is(lines[2], `"${DAY}T00:00:00+00:00","${billingId}","'=acme","'=${'0'.repeat(119)}1",0.000001,1,false`);
});

test('a Parquet file has decimals and instants, texts as they are, and the sums of the answer', async () => {
  const answer = await get({}, { Accept: 'application/vnd.apache.parquet' });
  assert.is(answer.headers.get('content-disposition'), 'attachment; filename="usage.parquet"');
  const { types, ask } = await readParquet(answer);
  assert.equal(types, [
    "start DateTime64(3, 'UTC')",
    'billingId Nullable(String)',
    'externalMeterId Nullable(String)',
    'usageName Nullable(String)',
    'totalBillingUsage Decimal(38, 6)',
    'events UInt64',
    'partial Bool',
  ]);
  const [row] = await ask(`
    select toString(count()) as rows, toString(uniqExact(usageName)) as names, toString(sum(totalBillingUsage)) as total, min(usageName) as name,
           any(externalMeterId) as meter, toString(max(start)) as start
    from answer`);
  const total = String(((ROWS / 2) * (ROWS - 1)) / 1e6);
  const name = `=${'0'.repeat(120)}`;
  const [rows, start] = [String(ROWS), `${DAY} 00:00:00.000`];
  assert.equal(row, { rows, names: rows, total, name, meter: '=acme', start });
});

test('a team has two exports under way; a third is a 429', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  const ask = (query: Record<string, string>) => world.call('get', strict + path(query));
  const answers = Array.from({ length: 3 }, () => ask({ format: 'csv', groupBy: 'billing' }));
  // Two are held back: the one that is refused answers first.
  await refused(42922, Promise.race(answers));
  // Rows are no export.
  await must(200, ask({ limit: '1' }));
  resolve();
  assert.equal(codesOf(await Promise.all(answers)), [200, 200, 42922]);
});

test('an export above the limit of bytes is refused before its first byte', async () => {
  await refused(40023, world.call('get', strict + path({ format: 'csv' })));
  await must(200, world.call('get', strict + path({ format: 'csv', groupBy: 'billing' })));
});

test('sums that take longer than a request may are a 400 that says how to ask for less', async () => {
  allowed = '0.001';
  for (const query of [{ groupBy: 'usageName' }, { groupBy: 'key' }, { format: 'csv' }])
    await refused(40021, world.call('get', strict + path(query)), JSON.stringify(query));
});

function path(query: Record<string, string>): string {
  return `${PATH}?${new URLSearchParams({ ...asked, ...query }).toString()}`;
}

function get(query: Record<string, string>, headers: Record<string, string> = {}) {
  return fetch(world.api.url + path(query), { headers: { Authorization: `Bearer ${world.team.token}`, ...headers } });
}
