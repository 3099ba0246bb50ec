import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { allowWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import { readUsage } from '../../../../shared/books/usage/query.ts';
import { connectClickHouse, REQUEST_LIMITS, type Books } from '../../../../shared/stores/clickhouse.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { daysOfUtc } from '../../../../shared/values/periods.ts';
import { eventually, makeWorld, wireTo, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/usage';
let world: World;
let books: ClickHouseClient;
let workspaceId: string;
const test = suite('usage');
test.before(async () => {
  world = await makeWorld();
  books = createClient({ url: world.env.CLICKHOUSE_URL! });
  workspaceId = await newWorkspace();
});
test.after(async () => {
  await books?.close();
  await world?.stop();
});

test('rows are sorted by day and then by name, with exact sums and each event counted once', async () => {
  const id = await newRecord();
  const twice = { event_id: newId('evt'), usage_name: 'b', cost_micros: 1 };
  await insertEvents(id, 0, [
    { usage_name: 'b', cost_micros: 1 },
    twice,
    { usage_name: 'a', cost_micros: 8_999_999_999_999_998 },
    { usage_name: 'a', cost_micros: 1 },
    { usage_name: 'a', cost_micros: 0 },
  ]);
  await insertEvents(id, 0, [twice]);
  await insertEvents(id, 1, [{ usage_name: 'z', cost_micros: 250_000 }]);
  await insertEvents(await newRecord(), 0, [{ usage_name: 'a', cost_micros: 5 }]);

  const answer = await world.call('get', `${PATH}/${id}`);
  assert.is(answer.status, 200, answer.text);
  const row = (ago: number, billingUsageName: string, totalBillingUsage: string, events: number) => ({
    billingId: id,
    day: daysAgo(ago),
    totalBillingUsage,
    billingUsageName,
    events,
  });
  assert.equal(answer.body, {
    data: [row(1, 'z', '0.25', 1), row(0, 'a', '8999999999.999999', 3), row(0, 'b', '0.000002', 2)],
  });
  assert.equal((await world.call('get', `${PATH}/${await newRecord()}`)).body, { data: [] });
});

test('closed days come from stored sums, marked and open days from the events', async () => {
  const id = await newRecord();
  for (const ago of [0, 1, 5, 6]) {
    await insertEvents(id, ago, [{ usage_name: 'x', cost_micros: 2_000_000 }]);
    // Its amount differs from that of the events. A later computation with fewer events never replaces it.
    await insertDaily(id, ago, 'x', 7_000_000, 3);
    await insertDaily(id, ago, 'x', 1_000_000, 2);
  }
  await world.sql`insert into usage_marks (workspace_id, billing_id, day) values (${workspaceId}, ${id}, ${daysAgo(5)})`;
  const { data } = (await world.call('get', `${PATH}/${id}`)).body;
  assert.equal(
    data.map((row: any) => [row.day, row.totalBillingUsage, row.events]),
    [
      [daysAgo(6), '7', 3],
      [daysAgo(5), '2', 1],
      [daysAgo(1), '2', 1],
      [daysAgo(0), '2', 1],
    ],
  );
});

test('from, to and usageName narrow the rows, both days included', async () => {
  const id = await newRecord();
  for (const ago of [0, 1, 2, 3]) {
    await insertEvents(id, ago, [
      { usage_name: 'a b&c', cost_micros: 1 },
      { usage_name: 'other', cost_micros: 1 },
    ]);
    await world.sql`insert into usage_marks (workspace_id, billing_id, day) values (${workspaceId}, ${id}, ${daysAgo(ago)})`;
  }
  const days = async (query: string) =>
    (await world.call('get', `${PATH}/${id}?${query}`)).body.data.map((row: any) => row.day) as string[];
  const named = 'usageName=a%20b%26c';
  assert.equal(await days(named), [3, 2, 1, 0].map(daysAgo));
  assert.equal(await days(`${named}&from=${daysAgo(2)}&to=${daysAgo(1)}`), [2, 1].map(daysAgo));
  assert.equal(await days(`${named}&from=${daysAgo(1)}`), [1, 0].map(daysAgo));
  assert.equal(await days(`${named}&to=${daysAgo(2)}`), [3, 2].map(daysAgo));
  assert.equal(await days(`${named}&from=${daysAgo(3)}&to=${daysAgo(3)}`), [daysAgo(3)]);
  assert.is((await days(`from=0001-01-01&to=9999-12-31`)).length, 8);
  assert.equal(await days('to=1969-12-31'), []);
  assert.equal(await days('from=2200-01-01'), []);
  assert.equal(await days("usageName='%20or%201=1%20--"), []);
});

test('Accept or format asks for CSV, which has the same data', async () => {
  const id = await newRecord();
  await insertEvents(id, 0, [
    { usage_name: '=HYPERLINK("x")', cost_micros: 1_500_000 },
    { usage_name: 'a,b', cost_micros: 1 },
    { usage_name: 'ünï', cost_micros: -2_500_000 },
  ]);
  const expected = [
    'billingId,day,totalBillingUsage,billingUsageName,events',
    `${id},${daysAgo(0)},1.5,"'=HYPERLINK(""x"")",1`,
    `${id},${daysAgo(0)},0.000001,"a,b",1`,
    `${id},${daysAgo(0)},-2.5,ünï,1`,
    '',
  ].join('\r\n');
  const asked = await world.call('get', `${PATH}/${id}`, undefined, { headers: { Accept: 'text/csv' } });
  assert.is(asked.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  assert.is(asked.text, expected);
  assert.is((await world.call('get', `${PATH}/${id}?format=csv`)).text, expected);
  const json = await world.call('get', `${PATH}/${id}?format=json`, undefined, { headers: { Accept: 'text/csv' } });
  assert.is(json.body.data.length, 3);
  assert.equal([asked.headers.get('vary'), json.headers.get('vary')], ['Accept', 'Accept']);
  const error = await world.call('get', `${PATH}/x?format=csv`);
  assert.is(error.body.error.code, 40404, 'an error is JSON all the same');
});

test('bad input is a 400 that names the parameter', async () => {
  const id = await newRecord();
  for (const [query, field] of [
    ['from=2026-02-30', 'from'],
    ['from=2026-13-01', 'from'],
    ['from=yesterday', 'from'],
    ['to=2026-1-1', 'to'],
    ['to=20260101', 'to'],
    ['from=2026-02-02&to=2026-02-01', 'from'],
    ['from=2026-02-02&from=2026-02-01', 'from'],
    ['usageName=', 'usageName'],
    ['format=xml', 'format'],
    ['form=csv', 'form'],
  ] as const) {
    const answer = await world.call('get', `${PATH}/${id}?${query}`);
    assert.is(answer.status, 400, `${query}: ${answer.text}`);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === field),
      answer.text,
    );
  }
});

test('no answer tells anything without a token, without the permission, or to another team or workspace', async () => {
  const id = await newRecord();
  const error = async (token: string | null, path = `${PATH}/${id}`) =>
    (await world.call('get', path, undefined, { token })).body.error?.code;
  assert.is(await error(null), 40101);
  assert.is(await error(await world.newToken(world.team.id, ['billing:read'])), 40301);
  assert.is(await error((await world.newTeam()).token), 40404);
  assert.is(await error(await world.newToken(world.team.id, ['usage:read'], [await newWorkspace()])), 40404);
  assert.is(await error(await world.newToken(world.team.id, ['usage:read'], [workspaceId])), undefined);
  for (const unknown of ['bill_01h455vb4pex5vsknk084sn02q', 'x', '%00']) {
    assert.is(await error(world.team.token, `${PATH}/${unknown}`), 40404);
  }
});

test('usage of more than 10,000 rows is refused whole, as JSON and as CSV; fewer days or one name are answered', async () => {
  const id = await newRecord();
  const values = Array.from({ length: 10_001 }, (_, i) => ({
    workspace_id: workspaceId,
    billing_id: id,
    day: daysAgo(4 + (i % 2)),
    usage_name: `n${i}`,
    cost_micros: 1,
    events: 1,
    all_events: 1,
  }));
  await books.insert({ table: 'usage_days', values, format: 'JSONEachRow' });
  for (const query of ['', '?format=csv', `?from=${daysAgo(9)}`]) {
    const answer = await world.call('get', `${PATH}/${id}${query}`);
    assert.equal([answer.status, answer.body?.error.code], [400, 40020], query);
  }
  assert.is((await world.call('get', `${PATH}/${id}?from=${daysAgo(4)}`)).body.data.length, 5_001);
  assert.is((await world.call('get', `${PATH}/${id}?usageName=n7`)).body.data.length, 1);
  await insertDaily(id, 4, 'n0', 1, 2);
  assert.is((await world.call('get', `${PATH}/${id}?from=${daysAgo(4)}&to=${daysAgo(4)}`)).body.data.length, 5_001);
});

test('sums of more groups than the answer may have rows are refused while they are grouped, any other failure is a 503', async () => {
  const limited = connectClickHouse(world.env.CLICKHOUSE_URL!, '', REQUEST_LIMITS);
  const tooSmall = connectClickHouse(world.env.CLICKHOUSE_URL!, '', { ...REQUEST_LIMITS, max_memory_usage: '1' });
  const billingId = newId('bill');
  const question = {
    workspace: allowWorkspace(workspaceId),
    periods: daysOfUtc('2026-01-01', '2026-01-02'),
    groupBy: ['usageName' as const],
    filters: { billingIds: [billingId] },
  };
  const read = (from: Books) =>
    readUsage({ sql: world.sql, books: from }, question, { limit: 3, mostGroups: 2, nowMs: Date.UTC(2026, 0, 2) });
  try {
    const event = (i: number) => ({
      workspace_id: workspaceId,
      billing_id: billingId,
      day: '2026-01-01',
      event_id: newId('evt'),
      usage_name: `n${i}`,
    });
    await books.insert({ table: 'usage_events', values: [0, 1, 2].map(event), format: 'JSONEachRow' });
    assert.is((await read(limited)).length, 3);
    // More than three in one part: each thread counts the groups of the parts that it reads.
    await books.insert({ table: 'usage_events', values: [3, 4, 5, 6].map(event), format: 'JSONEachRow' });
    assert.is((await read(limited).catch((error) => error)).errorName, 'usage_too_large');
    const failed = await read(tooSmall).catch((error) => error);
    assert.is(failed.errorName, 'usage_too_slow');
  } finally {
    await Promise.all([limited.close(), tooSmall.close()]);
  }
});

test('while ClickHouse is unavailable, usage is a 503 and everything else works', async () => {
  const id = await newRecord();
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const api = await world.start('api', { CLICKHOUSE_URL: wire.url });
  assert.is((await world.call('get', `${api.url}${PATH}/${id}`)).status, 200);
  await wire.cut();
  const answer = await world.call('get', `${api.url}${PATH}/${id}`);
  assert.equal([answer.status, answer.body.error.code], [503, 50303]);
  assert.is(answer.headers.get('retry-after'), '1');
  assert.is((await world.call('get', `${api.url}/api/v1/workspace`)).status, 200);
  await eventually('readiness tells', async () => (await fetch(`${api.url}/readyz`)).status === 503);
});

test.run();

async function newWorkspace(): Promise<string> {
  return (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id;
}

async function newRecord(): Promise<string> {
  const body = { workspaceId, externalMeterId: newId('evt') };
  return (await world.call('post', '/api/v1/customer-billing', body)).body.billing.id;
}

function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}

type TestEvent = { event_id?: string; usage_name: string; cost_micros: number };

async function insertEvents(billingId: string, ago: number, events: TestEvent[]): Promise<void> {
  const values = events.map((event) => ({
    workspace_id: workspaceId,
    billing_id: billingId,
    day: daysAgo(ago),
    event_id: newId('evt'),
    ...event,
  }));
  await books.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
}

async function insertDaily(billingId: string, ago: number, name: string, costMicros: number, events: number) {
  const sums = { cost_micros: costMicros, events, all_events: events };
  const values = [{ workspace_id: workspaceId, billing_id: billingId, day: daysAgo(ago), usage_name: name, ...sums }];
  await books.insert({ table: 'usage_days', values, format: 'JSONEachRow' });
}
