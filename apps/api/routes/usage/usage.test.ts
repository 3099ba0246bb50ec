import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { allowWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import type { UsageGroup } from '../../../../shared/books/usage/sql.ts';
import type { ApiError } from '../../../../shared/contract/errors.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { DAY_MS, daysOfUtc } from '../../../../shared/values/periods.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { refuseTooManyEvents } from '../../resources/usage-rows.ts';
import { callsOf, column, columns, joinWorld, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

// Usage of a workspace and of a record, as the api answers it. That the sums are those of the events, late ones too, in every
// zone, interval and grouping, is in shared/books/usage/query.test.ts.
const PATH = '/api/v1/usage';
const DAY = '2026-03-29';
let workspaceId: string;
let first: string;
let second: string;
const world = await joinWorld();
const { books } = world;
const calls = callsOf(world);
test.before.each(async () => {
  workspaceId = await newWorkspace(world);
  [first, second] = [await newRecord('of 1'), await newRecord('of 2')];
});

test('every CSV has a name to be kept under, and begins with a byte order mark where that is asked for', async () => {
  const workspace = await calls.make('/api/v1/workspace', { name: 'naïve 日本' });
  const meter = { workspaceId: workspace.id, externalMeterId: 'naïve 日本' };
  const { id } = await calls.make('/api/v1/customer-billing', meter);
  const span = 'from=2026-09-01&to=2026-09-30';
  for (const [path, name] of [
    [`/api/v1/usage/${id}?`, 'usage'],
    [`/api/v1/usage/${id}?interval=day&${span}&`, 'usage'],
    [`/api/v1/usage?workspaceId=${workspace.id}&${span}&`, 'usage'],
    [`/api/v1/customer-billing/${id}/statement?${span}&`, 'statement'],
    [`/api/v1/statements?workspaceId=${workspace.id}&from=2026-11-01&to=2026-12-31&`, 'statements'],
  ] as const) {
    const read = async (query: string) => {
      const headers = { Authorization: `Bearer ${world.team.token}` };
      const response = await fetch(`${world.api.url}${path}format=csv${query}`, { headers });
      assert.is(response.headers.get('content-disposition'), `attachment; filename="${name}.csv"`, path);
      return Buffer.from(await response.arrayBuffer()).toString();
    };
    const plain = await read('');
    assert.not.ok(plain.startsWith('\ufeff'), path);
    if (name === 'usage') assert.is(await read('&bom=0'), plain, path);
    assert.is(await read('&bom=1'), `\ufeff${plain}`, path);
  }
});

test('usage is summed by record and name; groups and filters by key, route and customer come from the events, with meters and routes as long as they can be', async () => {
  const keys = [newId('key'), newId('key')].toSorted();
  const [externalMeterId, route] = ['m'.repeat(256), `GET /${'r'.repeat(1_019)}`];
  const one = { billing_id: await newRecord(externalMeterId), time: `${DAY} 01:15:00`, cost_micros: 1_000_000 };
  await insert([
    { ...one, key_id: keys[0]!, route: 'GET /a', customer_id: 'c1' },
    { ...one, key_id: keys[1]!, route, customer_id: 'c1' },
    { ...one, key_id: keys[1]!, route, customer_id: 'c1' },
    { ...one, workspace_id: 'ws_other' },
  ]);
  for (const [asked, expected] of [
    [{}, `${one.billing_id} ${externalMeterId} default 3 3`],
    [{ groupBy: 'key,route' }, `${keys[0]} GET /a 1 1, ${keys[1]} ${route} 2 2`],
    [{ groupBy: 'customer' }, 'c1 3 3'],
    [{ groupBy: 'usageName', apiKeyId: keys[0] }, 'default 1 1'],
    [{ groupBy: 'usageName', route }, 'default 2 2'],
    [{ groupBy: 'usageName', customerId: 'c1', externalMeterId }, 'default 3 3'],
    [{ externalMeterId: 'of 2' }, ''],
    [{ externalMeterId: 'of none' }, ''],
  ] as const) {
    const rows = await list({ from: DAY, to: DAY, ...asked });
    const text = rows.map(({ start, ...row }) => start && Object.values(row).join(' ')).join(', ');
    assert.is(text, expected, JSON.stringify(asked).slice(0, 100));
  }
  const { details } = await refused(40001, get({ groupBy: 'key,usageName,key' }));
  assert.is(details[0].path, 'groupBy', 'each group is named once');
});

test('of an answer with more than 1,000 routes the largest have rows of their own, and the others are counted together', async () => {
  // The smallest two stand on the first day, the third one on the second.
  const values = Array.from({ length: 1_003 }, (_, i) => ({
    billing_id: first,
    route: `GET /${i}`,
    time: i === 2 ? '2026-03-11 12:00:00' : '2026-03-10 12:00:00',
    cost_micros: (i + 1) * 1_000_000,
  }));
  await insert(values);
  const asked = { from: '2026-03-10', to: '2026-03-11', groupBy: 'route', limit: 10_000 };
  const rows = await list(asked);
  const { true: others, undefined: named } = Object.groupBy(rows, ({ other }) => String(other));
  assert.equal(others, [
    { start: '2026-03-10T00:00:00+00:00', other: true, totalBillingUsage: '3', events: 2 },
    { start: '2026-03-11T00:00:00+00:00', other: true, totalBillingUsage: '3', events: 1 },
  ]);
  const routes = new Set(column(named!, 'route'));
  assert.is(routes.size, 1_000);
  assert.not.ok(['GET /0', 'GET /1', 'GET /2'].some((route) => routes.has(route)));
  const lines = (await get({ ...asked, format: 'csv' })).text.split('\r\n');
  assert.is(lines[0], '"start","route","other","totalBillingUsage","events","partial"');
  assert.is(lines.filter((line) => line.includes(',true,')).length, 2);
});

test('a period begins where its week, month, day or hour does, and is partial where from or to lies within it', async () => {
  const times = ['2026-03-03 12:00:00', '2026-03-11 12:00:00', '2026-03-18 12:00:00'];
  await insert(times.map((time, i) => ({ billing_id: first, time, cost_micros: (i + 1) * 1_000_000 })));
  for (const [interval, from, to, ...rows] of [
    ['week', '2026-03-10', '2026-03-17', '09T00 2 1 true'],
    ['week', '2026-03-10', '2026-03-18', '09T00 2 1 true', '16T00 3 1 true'],
    ['week', '2026-03-02', '2026-03-15', '02T00 1 1 false', '09T00 2 1 false'],
    ['month', '2026-03-10', '2026-03-31', '01T00 5 2 true'],
    ['month', '2026-03-01', '2026-03-31', '01T00 6 3 false'],
    ['month', '2026-03-01', '2026-03-30', '01T00 6 3 true'],
    ['day', '2026-03-11T06:00:00Z', '2026-03-12T00:00:00Z', '11T00 2 1 true'],
    ['hour', '2026-03-11T11:15:00Z', '2026-03-11T12:15:00Z', '11T12 2 1 true'],
    ['hour', '2026-03-11T11:15:00Z', '2026-03-11T13:00:00Z', '11T12 2 1 false'],
  ] as const) {
    const asked = { interval, from, to, groupBy: 'usageName' };
    const query = `?${new URLSearchParams(asked).toString()}`;
    const lines = rows.map((row) => `2026-03-${row.replace(' ', ':00:00+00:00,default,').replaceAll(' ', ',')}`);
    for (const data of [await list(asked), (await ofRecord(first, query)).body.data]) {
      const shown = data.map(({ partial = 'false', ...row }) => [...Object.values(row), partial].join());
      assert.equal(shown, lines, JSON.stringify(asked));
    }
    const file = ['start,usageName,totalBillingUsage,events,partial', ...lines, ''].join('\r\n');
    for (const { text } of [await get({ ...asked, format: 'csv' }), await ofRecord(first, `${query}&format=csv`)])
      assert.is(text.replaceAll('"', ''), file);
  }
  const day = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10);
  const [before, to] = [day(0), day(2)];
  const { openFrom } = (await get({ interval: 'month', from: before, to })).body;
  // It may have become another while it was asked.
  assert.ok(
    [before, day(0)].some((one) => openFrom === `${one.slice(0, 7)}-01T00:00:00+00:00`),
    openFrom,
  );
});

test('pages give each row once, for the bounds of page one; a cursor of another query, or made up, is refused', async () => {
  const events = Array.from({ length: 25 }, (_, i) => {
    const time = `2026-03-${10 + Math.floor(i / 5)} 12:00:00`;
    return { billing_id: first, usage_name: `n${i % 5}`, time, cost_micros: i + 1 };
  });
  await insert(events);
  const asked = { from: '2026-03-01', to: '2026-03-31' };
  const whole = await list(asked);
  assert.is(whole.length, 25);
  const pages = await readPages(4, (page) => get({ ...asked, ...Object.fromEntries(new URLSearchParams(page)) }));
  assert.equal(pages.flat(), whole);
  const { nextCursor: cursor } = (await get({ ...asked, limit: 4 })).body;
  await refused(40007, get({ ...asked, usageName: 'n1', cursor }));
  const [mark, , , ...rest] = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  for (const last of [1e12 + 1, 1e15, 6_291_457]) {
    const madeUp = JSON.stringify([mark, last - 1, last, ...rest]);
    await refused(40007, get({ ...asked, cursor: Buffer.from(madeUp).toString('base64url') }));
  }
  assert.is((await get(asked)).body.openFrom, undefined);
});

test('by key, more events than are summed at a time, or of more than 92 days, are refused; those of one record, and by name, are not', async () => {
  await insert([first, first, second].map((billing_id) => ({ billing_id, time: `${DAY} 01:15:00`, cost_micros: 1 })));
  const refusal = async (groupBy: UsageGroup[], billingIds?: string[]) => {
    const periods = daysOfUtc('2026-03-01', '2026-03-31');
    const filters = { ...(billingIds && { billingIds }) };
    const question = { workspace: allowWorkspace(workspaceId), periods, groupBy, filters };
    return refuseTooManyEvents({ sql: world.sql, books }, question, 2).catch((error: ApiError) => error.errorName);
  };
  assert.is(await refusal(['key']), 'too_many_events');
  assert.is(await refusal(['key'], [first]), undefined);
  assert.is(await refusal(['usageName']), undefined);
  await list({ groupBy: 'key', from: '2026-01-01', to: '2026-04-02' });
  for (const more of [{ groupBy: 'key' }, { customerId: 'c' }])
    await refused(40022, get({ ...more, from: '2026-01-01', to: '2026-04-03' }));
});

test('rows of a record are sorted by day and then by name, with exact sums and each event counted once', async () => {
  const one = { billing_id: first, time: `${DAY} 12:00:00` };
  const twice = { ...one, event_id: newId('evt'), usage_name: 'b', cost_micros: 1 };
  await insert([
    { ...one, usage_name: 'b', cost_micros: 1 },
    twice,
    { ...one, usage_name: '=a,', cost_micros: 8_999_999_999_999_998 },
    { ...one, usage_name: '=a,', cost_micros: 1 },
    { ...one, usage_name: '=a,', cost_micros: 0 },
    { ...one, time: '2026-03-28 12:00:00', usage_name: 'z', cost_micros: -250_000 },
    { ...one, billing_id: second, usage_name: 'b', cost_micros: 5 },
  ]);
  await insert([twice]);
  const rows = [
    { day: '2026-03-28', billingUsageName: 'z', totalBillingUsage: '-0.25', events: 1 },
    { day: DAY, billingUsageName: '=a,', totalBillingUsage: '8999999999.999999', events: 3 },
    { day: DAY, billingUsageName: 'b', totalBillingUsage: '0.000002', events: 2 },
  ].map((row) => ({ billingId: first, ...row }));
  assert.equal((await ofRecord(first)).body, { data: rows });
  assert.equal((await ofRecord(await newRecord('none'))).body, { data: [] });
  for (const [query, expected] of [
    [`from=${DAY}`, rows.slice(1)],
    ['to=2026-03-28', rows.slice(0, 1)],
    [`from=${DAY}&to=${DAY}&usageName=b`, rows.slice(2)],
    ['from=0001-01-01&to=9999-12-31', rows],
    ['to=1969-12-31', []],
    ['from=2200-01-01', []],
    ["usageName='%20or%201=1%20--", []],
  ] as const)
    assert.equal((await ofRecord(first, `?${query}`)).body.data, expected, query);
  for (const query of ['from=2026-02-30', 'to=2026-1-1', 'from=2026-02-02&to=2026-02-01'])
    await must(400, ofRecord(first, `?${query}`));

  const csv = [
    'billingId,day,totalBillingUsage,billingUsageName,events',
    `${first},2026-03-28,-0.25,z,1`,
    `${first},${DAY},8999999999.999999,"'=a,",3`,
    `${first},${DAY},0.000002,b,2`,
    '',
  ].join('\r\n');
  const headers = { Accept: 'text/csv' };
  const asked = await world.call('get', `${PATH}/${first}`, undefined, { headers });
  assert.is(asked.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  assert.is(asked.text, csv);
  assert.is((await ofRecord(first, '?format=csv')).text, csv);
  const json = await world.call('get', `${PATH}/${first}?format=json`, undefined, { headers });
  assert.equal([json.body.data, asked.headers.get('vary'), json.headers.get('vary')], [rows, 'Accept', 'Accept']);
});

test('a closed day comes from its stored sum, which one of fewer events never replaces; a marked one from the events', async () => {
  const [closed, marked] = ['2026-03-28', DAY];
  // The job that would store these days anew waits for its lock.
  await world.sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('keytally jobs'), hashtext('rollup'))`;
    await insert(
      [closed, marked].map((day) => ({ billing_id: first, time: `${day} 12:00:00`, cost_micros: 2_000_000 })),
    );
    await world.sql`delete from usage_marks where workspace_id = ${workspaceId} and day = ${closed}`;
    for (const sum of [
      { cost_micros: 7_000_000, events: 3, all_events: 3 },
      { cost_micros: 1_000_000, events: 2, all_events: 2 },
    ])
      await insertDays([closed, marked].map((day) => ({ billing_id: first, day, ...sum })));
    assert.equal(columns((await ofRecord(first)).body.data, 'day', 'totalBillingUsage', 'events'), [
      [closed, '7', 3],
      [marked, '2', 1],
    ]);
  });
});

test('usage of a record of more than 10,000 rows is refused whole, as JSON and as CSV; fewer days or one name are answered', async () => {
  const days = Array.from({ length: 10_001 }, (_, i) => {
    const day = i % 2 === 0 ? '2026-03-10' : '2026-03-11';
    return { billing_id: first, day, usage_name: `n${i}`, events: 1, all_events: 1 };
  });
  await insertDays(days);
  for (const query of ['', '?format=csv', '?from=2026-03-01']) await refused(40020, ofRecord(first, query), query);
  assert.is((await ofRecord(first, '?to=2026-03-10')).body.data.length, 5_001);
  assert.is((await ofRecord(first, '?usageName=n7')).body.data.length, 1);
});

async function newRecord(externalMeterId: string): Promise<string> {
  const body = { workspaceId, externalMeterId };
  return (await calls.make('/api/v1/customer-billing', body)).id;
}

function get(given: object) {
  const entries = Object.entries<unknown>({ workspaceId, ...given });
  const query = new URLSearchParams(entries.map(([name, one]) => [name, String(one)]));
  return world.call('get', `${PATH}?${query.toString()}`);
}

const list = async (given: object): Promise<any[]> => (await must(200, get(given))).body.data;
const ofRecord = (id: string, query = '') => world.call('get', `${PATH}/${id}${query}`);

type TestEvent = { billing_id: string; time: string; cost_micros: number; [more: string]: string | number };

async function insert(events: TestEvent[]): Promise<void> {
  const values = events.map((event) => ({
    workspace_id: workspaceId,
    day: event.time.slice(0, 10),
    event_id: newId('evt'),
    usage_name: 'default',
    ...event,
  }));
  await books.client.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
  // Days that are over are read from the events while they are marked.
  const marks = values.map(({ billing_id, day }) => ({ workspaceId, billingId: billing_id || workspaceId, day }));
  await world.sql`insert into usage_marks ${world.sql(marks)} on conflict do nothing`;
}

async function insertDays(days: object[]): Promise<void> {
  const values = days.map((one) => ({ workspace_id: workspaceId, usage_name: 'default', cost_micros: 1, ...one }));
  await books.client.insert({ table: 'usage_days', values, format: 'JSONEachRow' });
}
