import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { allowWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import { readOutcomes } from '../../../../shared/books/usage/outcomes-query.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import { makeCustomers, must, type Customers, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';

// What the api answers of the books' decisions. How those come there is in apps/verify/tests/outcomes.test.ts.

const now = Date.now();
// A day that is over, so that none ends while it is asked for.
const day = new Date(now - 2 * DAY_MS).toISOString().slice(0, 10);
const noon = Date.parse(`${day}T12:00:00Z`);

let own: string;
let customers: Customers;

const world = await joinWorld();
const { books } = world;
test.before.each(async () => {
  own = await newWorkspace(world);
  customers = makeCustomers(world, own);
});

test('decisions are counted by status, reason, limit and key, alone and together', async () => {
  const acme = { key_id: 'key_1' };
  const disabled = { status: 'DISABLED', reason: 'DISABLED', key_id: 'key_2' };
  const limited = { ...acme, status: 'RATE_LIMITED', reason: 'RATE_LIMIT', limited_by: 'key/daily' };
  await happened([
    acme,
    { ...acme, kind: 'hold' },
    // Neither is a call.
    { ...acme, kind: 'capture' },
    { ...acme, kind: 'adjustment' },
  ]);
  // Of a count that is told more than once the largest counts, and processes are added.
  for (const calls of [1, 2, 1]) await refused([{ ...limited, calls }]);
  await refused([
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
  assert.equal(await wrong({ groupBy: 'status,colour' }), ['groupBy', 40001]);
});

test('counts by key tell the name that it has now, also of a deleted one, to whoever may read keys', async () => {
  const [renamed, deleted] = [await customers.newKey({ name: 'old' }), await customers.newKey({ name: 'gone' })];
  const path = `/api/v1/workspace/${own}/api-key`;
  await must(200, world.call('patch', `${path}/${renamed.id}`, { name: 'new' }));
  await must(200, world.call('delete', `${path}/${deleted.id}`));
  await happened([{ key_id: renamed.id }, { key_id: deleted.id }]);
  const finance = await world.newToken(world.team.id, ['usage:read']);
  for (const [token, names] of [
    [world.team.token, ['new', 'gone']],
    [finance, [undefined, undefined]],
  ] as const) {
    const { data } = await counted({ groupBy: 'key' }, token);
    const told = new Map(data.map(({ apiKeyId, apiKeyName }) => [apiKeyId, apiKeyName]));
    assert.equal([told.get(renamed.id), told.get(deleted.id)], names);
  }
});

test('calls of the keys that have a meter now are counted, of no more than 1,000', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '2' });
  const keys = [await customers.newKey({ externalMeterId }), await customers.newKey({ externalMeterId })];
  await happened([{ key_id: keys[0]!.id }, { key_id: 'key_elsewhere' }]);
  await refused([
    { key_id: keys[1]!.id, status: 'DISABLED', reason: 'DISABLED', calls: 2 },
    { key_id: 'key_elsewhere', status: 'DISABLED', reason: 'DISABLED', calls: 4 },
  ]);
  const count = async (meter: string) => {
    const { data } = await counted({ externalMeterId: meter, groupBy: 'reason' });
    return textOf(data);
  };
  assert.is(await count(externalMeterId), '1, DISABLED 2');
  assert.is(await count('of nobody'), '');
  // Copies of a key, as the api stores them.
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object('id', k.id || i))).*
    from api_keys k, generate_series(1, 998) i where k.id = ${keys[0]!.id}`;
  assert.is(await count(externalMeterId), '1, DISABLED 2');
  await customers.newKey({ externalMeterId });
  assert.equal(await wrong({ externalMeterId }), [undefined, 40020]);
  const { error } = (await must(400, world.call('get', '/api/v1/verifications?externalMeterId=m'))).body;
  assert.equal(error.details, [{ path: 'externalMeterId', message: 'needs workspaceId' }]);
});

test('refusals of unknown keys are read without a workspace, by tokens of the whole team', async () => {
  await refused([{ status: 'INVALID', reason: 'MALFORMED', calls: 2, workspace_id: '' }]);
  const path = `/api/v1/verifications?groupBy=reason&from=${day}&to=${day}`;
  const { data } = (await must(200, world.call('get', path))).body;
  assert.is(textOf(data), 'MALFORMED 2');
  const token = await world.newToken(world.team.id, ['usage:read'], [own]);
  await must(403, world.call('get', path, undefined, { token }));
  await must(200, world.call('get', `${path}&workspaceId=${own}`, undefined, { token }));
});

test('an answer of too many rows, or counted from too much of the books, is refused with what would be less', async () => {
  const at = noon / 1_000;
  await books.client.command({
    query: `insert into refusals (team_id, workspace_id, minute, status, key_id, boot, calls)
      select {team:String}, {own:String}, toDateTime({at:UInt32}, 'UTC'), 'DISABLED', toString(number), 'b', 1 from numbers(20000)`,
    query_params: { team: world.team.id, own, at },
  });
  const read = (groupBy: 'key'[], rows: number, most: number) =>
    readOutcomes(
      books,
      { teamId: world.team.id, workspace: allowWorkspace(own), cuts: [at, at + 60], groupBy, filters: {} },
      { rows, read: most },
    ).catch((error: Error) => error.message);
  const [all] = (await read([], 1, 100_000)) as { calls: number }[];
  assert.is(all!.calls, 20_000);
  assert.is((await read(['key'], 20_000, 100_000)).length, 20_000);
  assert.match((await read(['key'], 19_999, 100_000)) as string, 'more than 19999 rows');
  assert.match((await read([], 1, 10_000)) as string, 'more than 10000 events and counts; ask for a shorter time');
});

test('the last hundred decisions of a key or a meter tell when, and why it was refused', async () => {
  const { id, meter } = await customers.meteredKey('2');
  const other = await customers.newKey({ externalMeterId: meter });
  const { id: billing_id } = await customers.billing(meter);
  const at = (secondsAgo: number) => ({
    time: new Date(now - secondsAgo * 1_000).toISOString().slice(0, -1).replace('T', ' '),
  });
  await happened([
    { key_id: id, billing_id, route: 'GET /a', ...at(86_500) },
    { key_id: id, billing_id, route: 'GET /a', ...at(80_000) },
    { key_id: id, billing_id, route: 'GET /a', ...at(20) },
  ]);
  const limitedBy = { on: 'key', name: 'daily', limit: 1 };
  const refusal = (key_id: string, reason: string, secondsAgo: number, limited_by = '') => {
    const refused = { workspace_id: own, refusal_id: newId('evt'), external_meter_id: meter, status: 'RATE_LIMITED' };
    return { ...refused, key_id, reason, limited_by, ...at(secondsAgo) };
  };
  await insert('recent_refusals', [
    refusal(id, 'RATE_LIMIT', 30, JSON.stringify(limitedBy)),
    refusal(other.id, 'DISABLED', 10),
  ]);
  const recent = async (query: Record<string, string>) => {
    const { data } = (await must(200, world.call('get', `/api/v1/verifications/recent?${searchOf(query)}`))).body;
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
  await insert(
    'recent_refusals',
    Array.from({ length: 99 }, () => refusal(id, 'DISABLED', 5)),
  );
  const last = await recent({ apiKeyId: id });
  assert.equal([last.length, last.at(-1)], [100, ofKey[0]]);
  for (const query of [{}, { apiKeyId: id, workspaceId: own }, { workspaceId: own }, { externalMeterId: 'm' }]) {
    const { error } = (await must(400, world.call('get', `/api/v1/verifications/recent?${searchOf(query)}`))).body;
    assert.match(error.message, 'workspaceId with externalMeterId');
  }
});

type Counted = { start: string; count: number } & Record<string, string>;

const searchOf = (query: Record<string, string>) => new URLSearchParams(query).toString();
const valuesOf = (row: Counted) => Object.values({ ...row, start: '' }).filter((value) => value !== '');
const textOf = (rows: Counted[]) => rows.map((row) => valuesOf(row).join(' ')).join(', ');

/** Asks for the counts of the workspace on the day. */
async function counted(query: Record<string, string>, token = world.team.token) {
  const search = searchOf({ workspaceId: own, from: day, to: day, ...query });
  const { body } = await must(200, world.call('get', `/api/v1/verifications?${search}`, undefined, { token }));
  return body as { data: Counted[]; wouldRefuse: Counted[] };
}

/** The parameter that a refusal names, and its code. */
async function wrong(query: Record<string, string>) {
  const search = searchOf({ workspaceId: own, from: day, to: day, ...query });
  const { error } = (await must(400, world.call('get', `/api/v1/verifications?${search}`))).body;
  return [error.details?.[0].path, error.code];
}

/** Counts of refusals, as processes told them. */
function refused(counts: object[]): Promise<unknown> {
  const cell = { team_id: world.team.id, workspace_id: own, minute: noon / 1_000, boot: 'boot' };
  return insert(
    'refusals',
    counts.map((one) => ({ ...cell, ...one })),
  );
}

/** Events of calls that were VALID, and others. */
function happened(events: Record<string, string>[]): Promise<unknown> {
  const event = { workspace_id: own, kind: 'verification', time: `${day} 12:00:00` };
  const values = events.map((one) => ({ ...event, event_id: newId('evt'), ...one }) as typeof event);
  return insert(
    'usage_events',
    values.map((one) => ({ ...one, day: one.time.slice(0, 10) })),
  );
}

function insert(table: string, values: object[]): Promise<unknown> {
  return books.client.insert({ table, values, format: 'JSONEachRow' });
}
