import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { allowWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import type { UsageGroup } from '../../../../shared/books/usage/sql.ts';
import type { ApiError } from '../../../../shared/contract/errors.ts';
import { connectClickHouse, REQUEST_LIMITS } from '../../../../shared/stores/clickhouse.ts';
import { daysOfUtc } from '../../../../shared/values/periods.ts';
import { refuseTooManyEvents } from '../../resources/usage-rows.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/usage';
let world: World;
let books: ClickHouseClient;
const test = suite('usage list');
test.before(async () => {
  world = await makeWorld();
  books = createClient({ url: world.env.CLICKHOUSE_URL! });
});
test.after(async () => {
  await books?.close();
  await world?.stop();
});

test('usage of a workspace is summed by day, record and name, and by hours of a zone', async () => {
  const { workspaceId, first, second } = await newWorkspace();
  await insert(workspaceId, [
    { billing_id: first, time: '2026-03-28 23:30:00', cost_micros: 1_500_000 },
    { billing_id: first, time: '2026-03-29 00:15:00', cost_micros: 250_000 },
    { billing_id: first, time: '2026-03-29 01:15:00', cost_micros: 1 },
    { billing_id: second, time: '2026-03-29 01:15:00', cost_micros: 2_000_000 },
    { billing_id: '', time: '2026-03-29 01:15:00', cost_micros: 0 },
  ]);
  await insert((await newWorkspace()).workspaceId, [
    { billing_id: first, time: '2026-03-29 01:15:00', cost_micros: 9 },
  ]);
  const days = await list({ workspaceId, from: '2026-03-28', to: '2026-03-29' });
  const row = (start: string, id: string, totalBillingUsage: string, events: number) => ({
    start: `${start}T00:00:00+00:00`,
    ...(id && { billingId: id, externalMeterId: `of ${id === first ? 1 : 2}` }),
    usageName: 'default',
    totalBillingUsage,
    events,
  });
  const records = [row('2026-03-29', first, '0.250001', 2), row('2026-03-29', second, '2', 1)];
  assert.equal(days, [
    row('2026-03-28', first, '1.5', 1),
    row('2026-03-29', '', '0', 1),
    ...(first < second ? records : records.toReversed()),
  ]);
  const zone = { timezone: 'Europe/Berlin', from: '2026-03-29', to: '2026-03-29' };
  // 02:00 to 03:00 did not exist.
  assert.equal(await list({ workspaceId, ...zone, interval: 'hour', groupBy: 'usageName', billingId: first }), [
    { start: '2026-03-29T00:00:00+01:00', usageName: 'default', totalBillingUsage: '1.5', events: 1 },
    { start: '2026-03-29T01:00:00+01:00', usageName: 'default', totalBillingUsage: '0.25', events: 1 },
    { start: '2026-03-29T03:00:00+02:00', usageName: 'default', totalBillingUsage: '0.000001', events: 1 },
  ]);
  const ofRecord = await world.call(
    'get',
    `${PATH}/${first}?interval=month&timezone=Europe%2FBerlin&from=2026-03-01&to=2026-03-31`,
  );
  assert.equal(ofRecord.body?.data, [
    { ...row('2026-03-01', first, '1.750001', 3), start: '2026-03-01T00:00:00+01:00' },
  ]);
});

test('groups and filters by key, route and customer come from the events', async () => {
  const { workspaceId, first } = await newWorkspace();
  const keys = [newId('key'), newId('key')].toSorted();
  const one = { billing_id: first, time: '2026-03-29 01:15:00', cost_micros: 1_000_000 };
  await insert(workspaceId, [
    { ...one, key_id: keys[0]!, route: 'GET /a', customer_id: 'c1' },
    { ...one, key_id: keys[1]!, route: 'GET /b', customer_id: 'c1' },
    { ...one, key_id: keys[1]!, route: 'GET /b', customer_id: 'c1' },
  ]);
  const day = { workspaceId, from: '2026-03-29', to: '2026-03-29' };
  const sums = async (more: object) =>
    (await list({ ...day, ...more })).map((row) => {
      delete row.start;
      delete row.events;
      return row;
    });
  assert.equal(await sums({ groupBy: 'key,route' }), [
    { apiKeyId: keys[0], route: 'GET /a', totalBillingUsage: '1' },
    { apiKeyId: keys[1], route: 'GET /b', totalBillingUsage: '2' },
  ]);
  assert.equal(await sums({ groupBy: 'customer' }), [{ customerId: 'c1', totalBillingUsage: '3' }]);
  const of = (more: object) => sums({ groupBy: 'usageName', ...more });
  const total = (totalBillingUsage: string) => [{ usageName: 'default', totalBillingUsage }];
  assert.equal(await of({ apiKeyId: keys[0] }), total('1'));
  assert.equal(await of({ route: 'GET /b' }), total('2'));
  assert.equal(await of({ customerId: 'c1', externalMeterId: 'of 1' }), total('3'));
  assert.equal(await of({ externalMeterId: 'of 2' }), []);
  assert.equal(await of({ externalMeterId: 'of none' }), []);
});

test('usage is filtered by meters and routes as long as a record and an event can have', async () => {
  const { workspaceId } = await newWorkspace();
  const [externalMeterId, route] = ['m'.repeat(256), `GET /${'r'.repeat(1_019)}`];
  const created = await world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId });
  const event = { billing_id: created.body.billing.id, time: '2026-03-29 01:15:00', cost_micros: 1_000_000, route };
  await insert(workspaceId, [event]);
  const given = { workspaceId, from: '2026-03-29', to: '2026-03-29', groupBy: 'billing,route', externalMeterId, route };
  const [row] = await list(given);
  assert.equal([row.externalMeterId, row.route, row.totalBillingUsage], [externalMeterId, route, '1']);
});

test('by key, more events than are summed at a time are refused; those of one record, and by name, are not', async () => {
  const { workspaceId, first, second } = await newWorkspace();
  const one = { time: '2026-03-29 01:15:00', cost_micros: 1 };
  await insert(
    workspaceId,
    [first, first, second].map((id) => ({ ...one, billing_id: id })),
  );
  const stores = { sql: world.sql, books: connectClickHouse(world.env.CLICKHOUSE_URL!, '', REQUEST_LIMITS) };
  const refusal = async (groupBy: UsageGroup[], billingIds?: string[]) => {
    const question = {
      workspace: allowWorkspace(workspaceId),
      periods: daysOfUtc('2026-03-01', '2026-03-31'),
      groupBy,
      filters: { ...(billingIds && { billingIds }) },
    };
    return refuseTooManyEvents(stores, question, 2).then(
      () => 'none',
      (error: ApiError) => error.errorName,
    );
  };
  try {
    assert.is(await refusal(['key']), 'too_many_events');
    assert.is(await refusal(['key'], [first]), 'none');
    assert.is(await refusal(['usageName']), 'none');
  } finally {
    await stores.books.close();
  }
});

test('of an answer with more than 1,000 routes the largest have rows of their own, and the others are counted together', async () => {
  const { workspaceId, first } = await newWorkspace();
  // The smallest two stand on the first day, the third one on the second; it costs as much as no other.
  const times = (i: number) => (i === 2 ? '2026-03-11 12:00:00' : '2026-03-10 12:00:00');
  await insert(
    workspaceId,
    Array.from({ length: 1_003 }, (_, i) => ({
      billing_id: first,
      route: `GET /${i}`,
      time: times(i),
      cost_micros: (i + 1) * 1_000_000,
    })),
  );
  const asked = { workspaceId, from: '2026-03-10', to: '2026-03-11', groupBy: 'route', limit: 10_000 };
  const rows = await list(asked);
  const others = rows.filter(({ other }) => other);
  assert.equal(others, [
    { start: '2026-03-10T00:00:00+00:00', other: true, totalBillingUsage: '3', events: 2 },
    { start: '2026-03-11T00:00:00+00:00', other: true, totalBillingUsage: '3', events: 1 },
  ]);
  const named = rows.filter(({ other }) => other === undefined);
  assert.equal([named.length, new Set(named.map(({ route }) => route)).size], [1_000, 1_000]);
  assert.not.ok(named.some(({ route }) => ['GET /0', 'GET /1', 'GET /2'].includes(route)));
  const lines = (await get({ ...asked, format: 'csv' })).text.split('\r\n');
  assert.is(lines[0], '"start","route","other","totalBillingUsage","events"');
  assert.is(lines.filter((line) => line.includes(',true,')).length, 2);
});

test('without a limit a page has 1,000 rows, with one at most 10,000', async () => {
  const { workspaceId, first } = await newWorkspace();
  await insert(
    workspaceId,
    Array.from({ length: 1_001 }, (_, i) => ({
      billing_id: first,
      usage_name: `n${i}`,
      time: '2026-03-10 12:00:00',
      cost_micros: 1,
    })),
  );
  const asked = { workspaceId, from: '2026-03-10', to: '2026-03-10' };
  const { body } = await get(asked);
  assert.equal([body.data.length, typeof body.nextCursor], [1_000, 'string']);
  assert.is((await list({ ...asked, cursor: body.nextCursor })).length, 1);
  assert.is((await list({ ...asked, limit: 10_000 })).length, 1_001);
});

test('a cursor carries the bounds of page one: those of today do not move the pages that follow', async () => {
  const { workspaceId, first } = await newWorkspace();
  const time = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  await insert(
    workspaceId,
    ['a', 'b'].map((name) => ({ billing_id: first, usage_name: name, time: `${time} 12:00:00`, cost_micros: 1 })),
  );
  const { nextCursor } = (await get({ workspaceId, limit: 1 })).body;
  const [mark, start, end, period, ...row] = JSON.parse(Buffer.from(nextCursor, 'base64url').toString()) as any[];
  assert.is((await list({ workspaceId, cursor: nextCursor })).length, 1);
  // As if page one had been asked a day ago, when yesterday was the last of its days.
  const earlier = Buffer.from(JSON.stringify([mark, start - 96, end - 96, period + 1, ...row])).toString('base64url');
  assert.equal(
    (await list({ workspaceId, cursor: earlier })).map(({ usageName }) => usageName),
    ['b'],
  );
  // And two days ago, when it had not begun.
  const before = Buffer.from(JSON.stringify([mark, start - 192, end - 192, 0, ...row])).toString('base64url');
  assert.equal(await list({ workspaceId, cursor: before }), []);
});

test('pages give each row once, for the bounds of page one; a cursor of another query is refused', async () => {
  const { workspaceId, first } = await newWorkspace();
  const events = Array.from({ length: 25 }, (_, i) => ({
    billing_id: first,
    usage_name: `n${i % 5}`,
    time: `2026-03-${10 + Math.floor(i / 5)} 12:00:00`,
    cost_micros: i + 1,
  }));
  await insert(workspaceId, events);
  const asked = { workspaceId, from: '2026-03-01', to: '2026-03-31' };
  const whole = await list(asked);
  assert.is(whole.length, 25);
  const rows: unknown[] = [];
  let cursor: string | undefined;
  do {
    const { body } = await get({ ...asked, limit: 4, ...(cursor && { cursor }) });
    rows.push(...body.data);
    cursor = body.nextCursor;
    if (cursor) {
      const other = await get({ ...asked, groupBy: 'billing', cursor });
      assert.equal([other.status, other.body.error.code], [400, 40007]);
    }
  } while (cursor);
  assert.equal(rows, whole);
  assert.is((await get({ ...asked, cursor: 'x' })).body.error.code, 40007);
  const { nextCursor } = (await get({ ...asked, limit: 4 })).body;
  const [mark, , , ...rest] = JSON.parse(Buffer.from(nextCursor, 'base64url').toString()) as unknown[];
  for (const last of [1e12 + 1, 1e15, 6_291_457]) {
    const made = Buffer.from(JSON.stringify([mark, last - 1, last, ...rest])).toString('base64url');
    const refused = await get({ ...asked, cursor: made });
    assert.equal([refused.status, refused.body.error.code], [400, 40007], String(last));
  }
  const now = await get({ workspaceId, from: '2026-03-01', to: '2026-03-02' });
  assert.is(now.body.openFrom, undefined);
  assert.is((await get({ workspaceId })).body.openFrom, `${new Date().toISOString().slice(0, 10)}T00:00:00+00:00`);
});

test('an export has the rows of the answer, with formulas disarmed in CSV', async () => {
  const { workspaceId, first } = await newWorkspace();
  const one = { billing_id: first, time: '2026-03-29 01:15:00' };
  await insert(workspaceId, [
    { ...one, usage_name: '=1+1', cost_micros: 1_500_000 },
    { ...one, usage_name: 'a;"b', cost_micros: -250_000 },
  ]);
  const day = { workspaceId, from: '2026-03-29', to: '2026-03-29' };
  const answer = await get({ ...day, format: 'csv' });
  assert.is(answer.status, 200, answer.text);
  const start = '2026-03-29T00:00:00+00:00';
  assert.is(
    answer.text,
    [
      '"start","billingId","externalMeterId","usageName","totalBillingUsage","events"',
      `"${start}","${first}","of 1","'=1+1",1.5,1`,
      `"${start}","${first}","of 1","a;""b",-0.25,1`,
      '',
    ].join('\r\n'),
  );
  assert.is(answer.headers.get('content-disposition'), 'attachment; filename="usage.csv"');
  const none = await get({ ...day, from: '2026-03-01', to: '2026-03-02', format: 'csv' });
  assert.equal(none.text.split('\r\n').length, 2, none.text);
});

test('a Parquet file reads back as decimals and times', async () => {
  const { workspaceId, first } = await newWorkspace();
  await insert(workspaceId, [
    { billing_id: first, time: '2026-03-29 01:15:00', usage_name: '=a', cost_micros: 1_500_000 },
  ]);
  const { url } = world.api;
  const query = new URLSearchParams({ workspaceId, from: '2026-03-29', to: '2026-03-29' }).toString();
  const answer = await fetch(`${url}${PATH}?${query}`, {
    headers: { Authorization: `Bearer ${world.team.token}`, Accept: 'application/vnd.apache.parquet' },
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  assert.equal([answer.status, bytes.subarray(0, 4).toString(), bytes.subarray(-4).toString()], [200, 'PAR1', 'PAR1']);
});

test('a day that a zone skipped has no usage, in any form and by any group', async () => {
  const { workspaceId, first } = await newWorkspace();
  await insert(workspaceId, [
    { billing_id: first, time: '2011-12-30 09:55:00', cost_micros: 1 },
    { billing_id: first, time: '2011-12-30 10:05:00', cost_micros: 2 },
  ]);
  const skipped = { from: '2011-12-30', to: '2011-12-30', timezone: 'Pacific/Apia' };
  for (const more of [
    {},
    { groupBy: 'route' },
    { groupBy: 'key,customer' },
    { interval: 'hour' },
    { interval: 'month' },
  ])
    assert.equal(await list({ workspaceId, ...skipped, ...more }), [], JSON.stringify(more));
  const csv = await get({ workspaceId, ...skipped, format: 'csv' });
  assert.equal([csv.status, csv.text.split('\r\n').length], [200, 2], csv.text);
  const ofRecord = await world.call('get', `${PATH}/${first}?${new URLSearchParams(skipped).toString()}`);
  assert.equal([ofRecord.status, ofRecord.body.data], [200, []], ofRecord.text);
  const both = await list({ workspaceId, ...skipped, from: '2011-12-29', groupBy: 'usageName' });
  assert.equal(
    both.map(({ start, events }) => [start, events]),
    [['2011-12-29T00:00:00-10:00', 1]],
  );
});

test('bad ranges, zones and groups are a 400 that names the parameter', async () => {
  const { workspaceId } = await newWorkspace();
  for (const [field, given] of [
    ['timezone', { timezone: 'Mars/Base' }],
    ['from', { from: '2026-02-30' }],
    ['from', { from: '2026-03-02', to: '2026-03-01' }],
    ['from', { from: '2026-01-01', to: '2026-06-01', interval: 'hour' }],
    ['from', { from: '2010-01-01', to: '2026-06-01' }],
    ['from', { to: '1970-01-05' }],
    ['from', { to: '1970-01-05T00:00:00Z' }],
    ['to', { from: '2026-03-01T00:00:00Z', to: '2026-03-01T00:07:00Z' }],
    ['to', { from: '2026-03-01T00:00:00Z', to: '2026-03-02' }],
    ['groupBy', { groupBy: 'billing,colour' }],
    ['limit', { limit: 10_001 }],
  ] as const) {
    const answer = await get({ workspaceId, ...given });
    assert.is(answer.status, 400, JSON.stringify(given));
    assert.is(answer.body.error.details?.[0]?.path, field, answer.text);
  }
  const unnamed = await get({});
  assert.equal([unnamed.status, unnamed.body.error.details?.[0]?.path], [400, 'workspaceId']);
  // The longest that is answered, and a day more.
  const daysFrom = (from: string, days: number) => ({
    from,
    to: new Date(Date.parse(from) + (days - 1) * 86_400_000).toISOString().slice(0, 10),
  });
  for (const [from, most, more, code] of [
    ['2026-01-01', 93, { interval: 'hour' }, 40001],
    ['2016-06-01', 3_660, { interval: 'month' }, 40001],
    ['2026-01-01', 92, { groupBy: 'key' }, 40022],
    ['2026-01-01', 92, { customerId: 'c' }, 40022],
  ] as const) {
    await list({ workspaceId, ...daysFrom(from, most), ...more });
    const refused = await get({ workspaceId, ...daysFrom(from, most + 1), ...more });
    assert.equal([refused.status, refused.body.error.code], [400, code], JSON.stringify(more));
    assert.match(refused.text, /fewer days|must be later/);
  }
  const other = await get({ workspaceId: newId('ws') });
  assert.is(other.body.error.code, 40302);
});

test.run();

async function newWorkspace() {
  const workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id as string;
  const record = async (externalMeterId: string) =>
    (await world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId })).body.billing.id as string;
  return { workspaceId, first: await record('of 1'), second: await record('of 2') };
}

function get(given: object) {
  const query = new URLSearchParams(Object.entries(given).map(([name, value]) => [name, String(value)]));
  return world.call('get', `${PATH}?${query.toString()}`);
}

async function list(given: object): Promise<any[]> {
  const answer = await get(given);
  assert.is(answer.status, 200, answer.text);
  return answer.body.data;
}

type TestEvent = { billing_id: string; time: string; cost_micros: number; [more: string]: string | number };

async function insert(workspaceId: string, events: TestEvent[]): Promise<void> {
  const values = events.map((event) => ({
    workspace_id: workspaceId,
    day: event.time.slice(0, 10),
    event_id: newId('evt'),
    usage_name: 'default',
    ...event,
  }));
  await books.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
  // Days that are over are read from the events while they are marked.
  for (const { billing_id: billingId, time } of events)
    await world.sql`
      insert into usage_marks (workspace_id, billing_id, day) values (${workspaceId}, ${billingId || workspaceId}, ${time.slice(0, 10)})
      on conflict do nothing`;
}
