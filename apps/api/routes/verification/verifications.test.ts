import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { allowWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import { readOutcomes } from '../../../../shared/books/usage/outcomes-query.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import {
  callsOf,
  column,
  joinWorld,
  makeCustomers,
  must,
  newWorkspace,
  refused,
  type Customers,
} from '../../tests/helpers/calls.ts';

// What the api answers of the books' decisions. How those come there is in apps/verify/tests/outcomes.test.ts.

const now = Date.now();
// A day that is over, so that none ends while it is asked for.
const day = new Date(now - 2 * DAY_MS).toISOString().slice(0, 10);
const noon = Date.parse(`${day}T12:00:00Z`);

let own: string;
let customers: Customers;

const world = await joinWorld();
const { books } = world;
const calls = callsOf(world);
test.before.each(async () => {
  own = await newWorkspace(world);
  customers = makeCustomers(world, own);
});

test('decisions are counted by status, reason, limit and key, alone and together', async () => {
  const acme = { key_id: 'key_1' };
  const disabled = { status: 'DISABLED', reason: 'DISABLED', key_id: 'key_2' };
  const limited = { ...acme, status: 'RATE_LIMITED', reason: 'RATE_LIMIT', limited_by: 'key/daily' };
  // The last two are no calls.
  await happened([acme, ...['hold', 'capture', 'adjustment'].map((kind) => ({ ...acme, kind }))]);
  // Of a count that is told more than once the largest counts, and processes are added.
  for (const calls of [1, 2, 1]) await refusals([{ ...limited, calls }]);
  await refusals([
    { ...limited, boot: 'another', calls: 1 },
    { ...disabled, calls: 1 },
    { ...acme, status: 'VALID', limited_by: 'key/tried', would_refuse: true, calls: 2 },
    { ...disabled, calls: 100, workspace_id: 'ws_other' },
    { ...disabled, calls: 100, team_id: 'team_other' },
  ]);
  for (const [groupBy, filters, expected] of [
    ['', {}, '6'],
    ['status', {}, 'DISABLED 1, RATE_LIMITED 3, VALID 2'],
    ['reason', {}, '2, DISABLED 1, RATE_LIMIT 3'],
    ['limit', {}, '3, key/daily 3'],
    ['key', {}, 'key_1 5, key_2 1'],
    ['key,status', {}, 'RATE_LIMITED key_1 3, VALID key_1 2, DISABLED key_2 1'],
    ['status', { apiKeyId: 'key_1' }, 'RATE_LIMITED 3, VALID 2'],
    ['status', { apiKeyId: 'key_2' }, 'DISABLED 1'],
    ['status', { limit: 'key/daily' }, 'RATE_LIMITED 3'],
    ['status', { reason: 'DISABLED' }, 'DISABLED 1'],
    ['', { status: 'VALID' }, '2'],
    ['', { status: 'INVALID' }, ''],
  ] as const) {
    const { data, wouldRefuse } = await counted({ groupBy, ...filters });
    assert.is(textOf(data), expected, `${groupBy} ${JSON.stringify(filters)}`);
    // Hits of shadow limits stand beside the counts.
    if (groupBy === 'limit') assert.is(textOf(wouldRefuse), 'key/tried 2');
  }
  const { data } = await counted({ groupBy: '', timezone: 'Asia/Kathmandu', interval: 'hour' });
  assert.equal(data, [{ start: `${day}T17:00:00+05:45`, count: 6 }]);
  const wrong = await refused(40001, ask({ groupBy: 'status,colour' }));
  assert.is(wrong.details[0].path, 'groupBy');
});

test('counts by key tell the name that it has now, also of a deleted one, to whoever may read keys', async () => {
  const [renamed, deleted] = [await customers.newKey({ name: 'old' }), await customers.newKey({ name: 'gone' })];
  const path = `/api/v1/workspace/${own}/api-key`;
  await calls.change(`${path}/${renamed.id}`, { name: 'new' });
  await calls.remove(`${path}/${deleted.id}`);
  await happened([{ key_id: renamed.id }, { key_id: deleted.id }]);
  const names = async (token?: string) => {
    const { data } = await counted({ groupBy: 'key' }, token);
    return [renamed, deleted].map(({ id }) => data.find(({ apiKeyId }) => apiKeyId === id)!.apiKeyName);
  };
  assert.equal(await names(), ['new', 'gone']);
  assert.equal(await names(await world.newToken(world.team.id, ['usage:read'])), [undefined, undefined]);
});

test('calls of the keys that have a meter now are counted, of no more than 1,000', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '2' });
  const keys = [await customers.newKey({ externalMeterId }), await customers.newKey({ externalMeterId })];
  await happened([{ key_id: keys[0]!.id }, { key_id: 'key_elsewhere' }]);
  await refusals([
    { key_id: keys[1]!.id, status: 'DISABLED', reason: 'DISABLED', calls: 2 },
    { key_id: 'key_elsewhere', status: 'DISABLED', reason: 'DISABLED', calls: 4 },
  ]);
  const count = async (meter: string) => textOf((await counted({ externalMeterId: meter, groupBy: 'reason' })).data);
  assert.is(await count(externalMeterId), '1, DISABLED 2');
  assert.is(await count('of nobody'), '');
  // Copies of a key, as the api stores them.
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object('id', k.id || i))).*
    from api_keys k, generate_series(1, 998) i where k.id = ${keys[0]!.id}`;
  assert.is(await count(externalMeterId), '1, DISABLED 2');
  await customers.newKey({ externalMeterId });
  await refused(40020, ask({ externalMeterId }));
  const { details } = await refused(40001, calls.ask('get', '/api/v1/verifications?externalMeterId=m'));
  assert.equal(details, [{ path: 'externalMeterId', message: 'needs workspaceId' }]);
});

test('refusals of unknown keys are read without a workspace, by tokens of the whole team', async () => {
  await refusals([{ status: 'INVALID', reason: 'MALFORMED', calls: 2, workspace_id: '' }]);
  const path = `/api/v1/verifications?groupBy=reason&from=${day}&to=${day}`;
  assert.is(textOf(await calls.read(path)), 'MALFORMED 2');
  const limited = callsOf(world, await world.newToken(world.team.id, ['usage:read'], [own]));
  await must(403, limited.ask('get', path));
  await limited.read(`${path}&workspaceId=${own}`);
});

test('an answer of too many rows, or counted from too much of the books, is refused with what would be less', async () => {
  const at = noon / 1_000;
  await books.client.command({
    query: `insert into refusals (team_id, workspace_id, minute, status, key_id, boot, calls)
      select {team:String}, {own:String}, toDateTime({at:UInt32}, 'UTC'), 'DISABLED', toString(number), 'b', 1 from numbers(20000)`,
    query_params: { team: world.team.id, own, at },
  });
  const asked = { teamId: world.team.id, workspace: allowWorkspace(own), cuts: [at, at + 60], filters: {} };
  const read = (groupBy: 'key'[], rows: number, most: number) =>
    readOutcomes(books, { ...asked, groupBy }, { rows, read: most });
  assert.equal(column(await read([], 1, 100_000), 'calls'), [20_000]);
  assert.is((await read(['key'], 20_000, 100_000)).length, 20_000);
  await rejects(read(['key'], 19_999, 100_000), /more than 19999 rows/);
  await rejects(read([], 1, 10_000), /more than 10000 events and counts; ask for a shorter time/);
});

test('the last hundred decisions of a key, a meter or a workspace tell when, what they used, and why they were refused, and are those asked for', async () => {
  const { id, meter } = await customers.meteredKey('2');
  const other = await customers.newKey({ externalMeterId: meter });
  const { id: billing_id } = await customers.billing(meter);
  const textAt = (ms: number) => new Date(ms).toISOString().slice(0, -1).replace('T', ' ');
  const at = (secondsAgo: number) => ({ time: textAt(now - secondsAgo * 1_000) });
  const used = { cost_micros: '1500000', used_micros: '4000000' };
  await happened([
    { key_id: id, billing_id, route: 'GET /a', ...at(86_500) },
    { key_id: id, billing_id, route: 'GET /a', ...at(80_000) },
    { key_id: id, billing_id, route: 'GET /a', usage_name: 'tokens', ...used, ...at(20) },
  ]);
  const limitedBy = { on: 'key', name: 'daily', limit: 1 };
  const refusal = (key_id: string, reason: string, secondsAgo: number, limited_by = '') => {
    const alike = { workspace_id: own, refusal_id: newId('evt'), external_meter_id: meter, status: 'RATE_LIMITED' };
    return { ...alike, key_id, reason, limited_by, ...at(secondsAgo) };
  };
  await insert('recent_refusals', [
    refusal(id, 'RATE_LIMIT', 30, JSON.stringify(limitedBy)),
    refusal(other.id, 'DISABLED', 10),
  ]);
  const recent = async (query: Record<string, string>) => {
    const data = await calls.read(`/api/v1/verifications/recent?${searchOf(query)}`);
    return data.map(({ time, apiKeyId, reason, limitedBy: limit, route }: any) => {
      return [(now - Date.parse(time)) / 1_000, apiKeyId, reason, limit, route];
    });
  };
  const ofKey = [
    [20, id, undefined, undefined, 'GET /a'],
    [30, id, 'RATE_LIMIT', limitedBy, undefined],
    [80_000, id, undefined, undefined, 'GET /a'],
  ];
  assert.equal(await recent({ apiKeyId: id }), ofKey);
  const ofMeter = { workspaceId: own, externalMeterId: meter };
  assert.equal(await recent(ofMeter), [[10, other.id, 'DISABLED', undefined, undefined], ...ofKey]);
  for (const [asked, secondsAgo] of [
    [{}, [10, 20, 30, 80_000]],
    [{ refused: 'true' }, [10, 30]],
    [{ refused: 'false' }, [20, 80_000]],
    [{ status: 'VALID', usageName: 'tokens' }, [20]],
    [{ status: 'RATE_LIMITED', reason: 'DISABLED' }, [10]],
    [{ reason: 'RATE_LIMIT', usageName: 'tokens' }, []],
    [{ from: `${now - 30_000}`, to: `${now - 10_000}` }, [20, 30]],
    [{ externalMeterId: meter, to: `${now - 60_000}` }, [80_000]],
  ] as const)
    assert.equal(column(await recent({ workspaceId: own, ...asked }), '0'), secondsAgo, JSON.stringify(asked));
  const [{ billingUsage, usedCredits }] = await calls.read(`/api/v1/verifications/recent?apiKeyId=${id}&refused=false`);
  assert.equal([billingUsage, usedCredits], ['1.5', '4']);
  const many = Array.from({ length: 99 }, () => refusal(id, 'DISABLED', 5));
  await insert('recent_refusals', many);
  const last = await recent({ apiKeyId: id });
  assert.equal([last.length, last.at(-1)], [100, ofKey[0]]);
  for (const query of [{}, { apiKeyId: id, workspaceId: own }, { externalMeterId: 'm' }]) {
    const wrong = calls.ask('get', `/api/v1/verifications/recent?${searchOf(query)}`);
    assert.match((await refused(40001, wrong)).message, 'workspaceId, also with externalMeterId');
  }
});

type Counted = { start: string; count: number } & Record<string, string>;

const searchOf = (query: Record<string, string>) => new URLSearchParams(query).toString();
const valuesOf = (row: Counted) => Object.values({ ...row, start: '' }).filter((value) => value !== '');
const textOf = (rows: Counted[]) => rows.map((row) => valuesOf(row).join(' ')).join(', ');

function ask(query: Record<string, string>, token?: string) {
  const search = searchOf({ workspaceId: own, from: day, to: day, ...query });
  return callsOf(world, token).ask('get', `/api/v1/verifications?${search}`);
}

async function counted(query: Record<string, string>, token?: string) {
  return (await must(200, ask(query, token))).body as { data: Counted[]; wouldRefuse: Counted[] };
}

function refusals(counts: object[]): Promise<unknown> {
  const cell = { team_id: world.team.id, workspace_id: own, minute: noon / 1_000, boot: 'boot' };
  return insert(
    'refusals',
    counts.map((one) => ({ ...cell, ...one })),
  );
}

function happened(events: Record<string, string>[]): Promise<unknown> {
  const values = events.map(({ time = `${day} 12:00:00`, ...one }) => {
    const event = { workspace_id: own, kind: 'verification', event_id: newId('evt') };
    return { ...event, ...one, time, day: time.slice(0, 10) };
  });
  return insert('usage_events', values);
}

function insert(table: string, values: object[]): Promise<unknown> {
  return books.client.insert({ table, values, format: 'JSONEachRow' });
}
