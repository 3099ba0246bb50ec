import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { allowWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import { readOutcomes } from '../../../../shared/books/usage/outcomes-query.ts';
import { readRecentOutcomes } from '../../../../shared/books/usage/recent-outcomes.ts';
import { connectClickHouse, type Books } from '../../../../shared/stores/clickhouse.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

// The section "Outcomes" of the contract, by what the api answers.

type Counted = { start: string; count: number } & Record<string, string>;

let world: World;
let workspaceId: string;
let customers: Customers;
let books: Books;

const test = suite('GET /api/v1/verifications');
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  workspaceId = await newWorkspace();
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await books?.close();
  await world?.stop();
});

test('decisions are counted by status, reason, limit, key, route and customer, alone and together', async () => {
  const own = await newWorkspace();
  const ours = makeCustomers(world, own);
  const limits = [{ name: 'daily', unit: 'requests', limit: 2, per: 'day' }];
  const limited = await ours.newKey({ customerId: 'acme', limits });
  const disabled = await ours.newKey({ customerId: 'other', enabled: false });
  for (const route of ['GET /a', 'GET /a', 'GET /b', 'GET /b', 'GET /b'])
    await ours.verify({ key: limited.key, route });
  await ours.verify({ key: disabled.key, route: 'GET /a' });
  const count = async (groupBy: string, more: object = {}) =>
    (await counted({ workspaceId: own, groupBy, ...more })).data;
  const all = (rows: Counted[]) =>
    withoutStart(rows).map(({ count: calls, ...groups }) => [...Object.values(groups), calls]);
  await eventually('all are there', async () => sumOf(await count('')) === 6);

  assert.equal(all(await count('')), [[6]]);
  // Refusals are no usage.
  const usage = await must(200, world.call('get', `/api/v1/usage?workspaceId=${own}&groupBy=customer`));
  assert.equal(
    usage.body.data.map(({ customerId, events }: { customerId: string; events: number }) => [customerId, events]),
    [['acme', 2]],
  );
  assert.equal(all(await count('status')), [
    ['DISABLED', 1],
    ['RATE_LIMITED', 3],
    ['VALID', 2],
  ]);
  assert.equal(all(await count('reason')), [[2], ['DISABLED', 1], ['RATE_LIMIT', 3]]);
  assert.equal(all(await count('limit')), [[3], ['key/daily', 3]]);
  assert.equal(all(await count('route')), [
    ['GET /a', 3],
    ['GET /b', 3],
  ]);
  assert.equal(all(await count('customer')), [
    ['acme', 5],
    ['other', 1],
  ]);
  assert.equal(
    new Map((await count('key')).map(({ apiKeyId, count: calls }) => [apiKeyId, calls])),
    new Map([
      [limited.id, 5],
      [disabled.id, 1],
    ]),
  );
  assert.equal(all(await count('route,status')), [
    ['DISABLED', 'GET /a', 1],
    ['VALID', 'GET /a', 2],
    ['RATE_LIMITED', 'GET /b', 3],
  ]);

  assert.equal(all(await count('status', { customerId: 'acme' })), [
    ['RATE_LIMITED', 3],
    ['VALID', 2],
  ]);
  assert.equal(all(await count('status', { route: 'GET /a' })), [
    ['DISABLED', 1],
    ['VALID', 2],
  ]);
  assert.equal(all(await count('status', { apiKeyId: disabled.id })), [['DISABLED', 1]]);
  assert.equal(all(await count('status', { limit: 'key/daily' })), [['RATE_LIMITED', 3]]);
  assert.equal(all(await count('status', { reason: 'DISABLED' })), [['DISABLED', 1]]);
  assert.equal(all(await count('', { status: 'VALID' })), [[2]]);
  assert.equal(all(await count('', { status: 'INVALID' })), []);
});

test('counts by key tell the name that it has now, also of a deleted one, to whoever may read keys', async () => {
  const own = await newWorkspace();
  const ours = makeCustomers(world, own);
  const [renamed, deleted] = [await ours.newKey({ name: 'old' }), await ours.newKey({ name: 'gone' })];
  for (const { key } of [renamed, deleted]) await ours.verify({ key });
  await must(200, world.call('patch', `/api/v1/workspace/${own}/api-key/${renamed.id}`, { name: 'new' }));
  await must(200, world.call('delete', `/api/v1/workspace/${own}/api-key/${deleted.id}`));
  const path = `/api/v1/verifications?workspaceId=${own}&groupBy=key`;
  const namesFor = async (token: string) => {
    const { data } = (await must(200, world.call('get', path, undefined, { token }))).body;
    return new Map(data.map(({ apiKeyId, apiKeyName }: Record<string, string>) => [apiKeyId, apiKeyName]));
  };
  await eventually('both are there', async () => (await namesFor(world.team.token)).size === 2);
  assert.equal(
    await namesFor(world.team.token),
    new Map([
      [renamed.id, 'new'],
      [deleted.id, 'gone'],
    ]),
  );
  const made = { name: 'finance', permissions: ['usage:read'] };
  const { token } = (await must(201, world.call('post', '/api/v1/access-token', made))).body.accessToken;
  assert.equal(
    await namesFor(token),
    new Map([
      [renamed.id, undefined],
      [deleted.id, undefined],
    ]),
  );
});

test('calls of the keys of a meter are counted: refused and VALID, of each key that has it now, and of no more than 1,000', async () => {
  const own = await newWorkspace();
  const ours = makeCustomers(world, own);
  const externalMeterId = await ours.newMeter({ totalCredits: '2' });
  const keys = [await ours.newKey({ externalMeterId }), await ours.newKey({ externalMeterId, enabled: false })];
  const elsewhere = await ours.newKey();
  for (const { key } of [...keys, ...keys, elsewhere]) await ours.verify({ key, billing: { usage: '2' } });
  const count = async (meter: string, groupBy = 'reason') =>
    withoutStart((await counted({ workspaceId: own, externalMeterId: meter, groupBy })).data);
  await eventually('all are there', async () => sumOf((await counted({ workspaceId: own, groupBy: '' })).data) === 5);
  assert.equal(await count(externalMeterId), [
    { count: 1 },
    { reason: 'CREDITS_USED_UP', count: 1 },
    { reason: 'DISABLED', count: 2 },
  ]);
  assert.equal(await count('of nobody'), []);

  // Copies of a key, as the api stores them: making each by a request would take the test's time.
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object('id', 'key_' || lpad(i::text, 26, '0')))).*
    from api_keys k, generate_series(1, 998) i where k.id = ${keys[0]!.id}`;
  assert.equal(await count(externalMeterId, ''), [{ count: 4 }]);
  await ours.newKey({ externalMeterId });
  const query = new URLSearchParams({ workspaceId: own, externalMeterId }).toString();
  const { error } = (await must(400, world.call('get', `/api/v1/verifications?${query}`))).body;
  assert.is(error.code, 40020);
  assert.match(error.message, 'The meter has more than 1000 keys');
});

test('VALID is every call that passed, with a hold, and repeated under an Idempotency-Key once', async () => {
  const own = await newWorkspace();
  const ours = makeCustomers(world, own);
  const { key } = await ours.meteredKey('100');
  const unmetered = await ours.newKey();
  await ours.verify({ key, billing: { usage: '1' } });
  await ours.verify({ key, billing: { usage: '1', hold: { expiresIn: 60 } } });
  for (let i = 0; i < 2; i++) await ours.verify({ key }, { headers: { 'Idempotency-Key': 'once' } });
  await ours.verify({ key: unmetered.key });
  await eventually('four calls', async () => sumOf((await counted({ workspaceId: own })).data) === 4);
});

test('hits of shadow limits stand beside the counts, and no call is counted twice', async () => {
  const own = await newWorkspace();
  const ours = makeCustomers(world, own);
  const limits = [{ name: 'tried', unit: 'requests', limit: 1, per: 'day', shadow: true }];
  const { key } = await ours.newKey({ limits });
  for (let i = 0; i < 3; i++) await ours.verify({ key });
  const answer = await eventually('all are there', async () => {
    const { data, wouldRefuse } = await counted({ workspaceId: own, groupBy: 'status,limit' });
    return sumOf(data) + sumOf(wouldRefuse) === 5 ? { data, wouldRefuse } : undefined;
  });
  assert.equal(withoutStart(answer.data), [{ status: 'VALID', count: 3 }]);
  assert.equal(withoutStart(answer.wouldRefuse), [{ status: 'VALID', limit: 'key/tried', count: 2 }]);
});

test('periods begin where those of the zone do: minutes, hours and days, and days with both ends', async () => {
  const own = await newWorkspace();
  const minute = (text: string) => Date.parse(text) / 1000;
  // Two days ago, so that days are over everywhere.
  const day = (ago: number) => new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10);
  const [two, one] = [day(3), day(2)];
  await book(own, [
    [minute(`${two}T18:14:00Z`), 1],
    [minute(`${two}T18:15:00Z`), 2],
    [minute(`${two}T18:44:00Z`), 4],
    [minute(`${one}T18:14:00Z`), 8],
    [minute(`${one}T18:15:00Z`), 16],
  ]);
  const rows = async (query: Record<string, string>) =>
    (await counted({ workspaceId: own, groupBy: '', from: two, to: one, ...query })).data.map(({ start, count }) => [
      start,
      count,
    ]);
  assert.equal(await rows({}), [
    [`${two}T00:00:00+00:00`, 7],
    [`${one}T00:00:00+00:00`, 24],
  ]);
  // Kathmandu's day begins at 18:15 UTC.
  assert.equal(await rows({ timezone: 'Asia/Kathmandu' }), [
    [`${two}T00:00:00+05:45`, 1],
    [`${one}T00:00:00+05:45`, 14],
  ]);
  assert.equal(await rows({ timezone: 'Asia/Kathmandu', interval: 'hour' }), [
    [`${two}T23:00:00+05:45`, 1],
    [`${one}T00:00:00+05:45`, 6],
    [`${one}T23:00:00+05:45`, 8],
  ]);
  assert.equal(await rows({ interval: 'minute', from: `${two}T18:15:00Z`, to: `${two}T18:44:00Z` }), [
    [`${two}T18:15:00+00:00`, 2],
  ]);
  assert.equal(await rows({ interval: 'minute', from: `${two}T20:15:00+02:00`, to: `${two}T18:45:00Z` }), [
    [`${two}T18:15:00+00:00`, 2],
    [`${two}T18:44:00+00:00`, 4],
  ]);
});

test('of a count that was told more than once the largest counts, and processes are added', async () => {
  const own = await newWorkspace();
  const at = Math.floor(Date.now() / 60_000) * 60;
  await book(own, [
    [at, 5],
    [at, 9],
    [at, 7],
  ]);
  await book(own, [[at, 9]]);
  await book(own, [[at, 100]], 'another boot');
  assert.equal(
    (await counted({ workspaceId: own })).data.map(({ count }) => count),
    [109],
  );
});

test('refusals of unknown keys are read without a workspace, by tokens of the whole team', async () => {
  const team = await world.newTeam();
  const { token } = team;
  await eventually('known', async () => (await customers.verify({}, { token })).status === 400);
  for (const key of ['nothing', 'nothing']) await customers.verify({ key, route: 'GET /a' }, { token });
  const read = async () =>
    (await must(200, world.call('get', '/api/v1/verifications?groupBy=reason,route', undefined, { token }))).body;
  const { data } = await eventually('both', async () => {
    const body = await read();
    return sumOf(body.data) === 2 ? body : undefined;
  });
  assert.equal(withoutStart(data), [{ reason: 'MALFORMED', count: 2 }]);
  const limited = await world.newToken(world.team.id, ['usage:read'], [workspaceId]);
  await must(403, world.call('get', '/api/v1/verifications', undefined, { token: limited }));
  await must(200, world.call('get', `/api/v1/verifications?workspaceId=${workspaceId}`, undefined, { token: limited }));
});

test('wrong bounds, zones and groups are told by name', async () => {
  const wrong = async (query: Record<string, string>) => {
    const search = new URLSearchParams({ workspaceId, ...query });
    const { error } = (await must(400, world.call('get', `/api/v1/verifications?${search.toString()}`))).body;
    return [error.details[0].path, error.details[0].message];
  };
  const { error } = (await must(400, world.call('get', '/api/v1/verifications?externalMeterId=m'))).body;
  assert.equal(error.details, [{ path: 'externalMeterId', message: 'needs workspaceId' }]);
  const today = new Date().toISOString().slice(0, 10);
  const ago = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);
  assert.equal(await wrong({ timezone: 'Mars' }), [
    'timezone',
    'must be the IANA name of a time zone, such as Europe/Berlin',
  ]);
  assert.equal(await wrong({ from: 'yesterday' }), [
    'from',
    'must be a day, YYYY-MM-DD, or an instant in RFC 3339, such as 2026-11-20T08:15:00Z',
  ]);
  assert.equal(await wrong({ from: today, to: ago(1) }), ['from', 'must be before to']);
  assert.equal(await wrong({ from: `${today}T00:00:30Z`, interval: 'minute' }), ['from', 'must be a whole minute']);
  assert.equal(await wrong({ to: `${today}T00:05:00Z`, from: ago(1) }), ['to', 'must be a whole quarter hour']);
  assert.match((await wrong({ from: ago(2), interval: 'minute' }))[1], 'must be at most 2 days before the end');
  assert.match((await wrong({ from: ago(32), interval: 'hour' }))[1], 'must be at most 31 days before the end');
  assert.match((await wrong({ from: ago(95), to: ago(90) }))[1], 'must be at most 93 days ago');
  assert.equal(await wrong({ groupBy: 'status,colour' }), [
    'groupBy',
    'must be any of status, reason, limit, key, route, customer, with commas between',
  ]);
});

test('an answer with more than 10,000 rows is refused with what would be less', async () => {
  const own = await newWorkspace();
  const at = Math.floor(Date.now() / 60_000) * 60;
  await books.client.command({
    query: `insert into refusals (team_id, workspace_id, minute, status, reason, route, boot, calls)
      select {team:String}, {own:String}, toDateTime({at:UInt32}, 'UTC'), 'DISABLED', 'DISABLED', toString(number), 'b', 1
      from numbers(10001)`,
    query_params: { team: world.team.id, own, at },
  });
  const { error } = (await must(400, world.call('get', `/api/v1/verifications?workspaceId=${own}&groupBy=route`))).body;
  assert.is(error.code, 40020);
  assert.match(error.message, 'fewer groups');
  assert.equal(withoutStart((await counted({ workspaceId: own })).data), [{ status: 'DISABLED', count: 10_001 }]);
});

test('an answer that would be counted from too much of the books is refused', async () => {
  const own = await newWorkspace();
  const at = Math.floor(Date.now() / 60_000) * 60;
  await books.client.command({
    query: `insert into refusals (team_id, workspace_id, minute, status, route, boot, calls)
      select {team:String}, {own:String}, toDateTime({at:UInt32}, 'UTC'), 'DISABLED', toString(number), 'b', 1 from numbers(50000)`,
    query_params: { team: world.team.id, own, at },
  });
  const question = {
    teamId: world.team.id,
    workspace: allowWorkspace(own),
    cuts: [at, at + 60],
    groupBy: [],
    filters: {},
  };
  const read = (most: number) => readOutcomes(books, question, { rows: 10, read: most });
  assert.is((await read(200_000))[0]!.calls, 50_000);
  const error = await read(10_000).catch((thrown: unknown) => thrown);
  assert.match((error as Error).message, 'more than 10000 events and counts; ask for a shorter time');
});

test('of a busy key no more than its last minutes are read', async () => {
  const own = await newWorkspace();
  const { id } = await makeCustomers(world, own).newKey();
  const event = (count: number, minutesAgo: number, keyId = id) =>
    books.client.command({
      query: `
        with now64(3, 'UTC') - interval ${minutesAgo} minute as at
        insert into usage_events (workspace_id, day, event_id, kind, key_id, time, inserted_at)
        select {own:String}, toDate(at), {keyId:String} || '_${minutesAgo}_' || toString(number), 'verification', {keyId:String}, at, at
        from numbers(${count})`,
      query_params: { own, keyId },
    });
  await event(200_000, 1_200);
  await event(300, 1);
  const limited = connectClickHouse(world.env.CLICKHOUSE_URL!, '', { max_rows_to_read: '100000' });
  const question = { workspace: allowWorkspace(own), keyIds: [id] };
  const recent = await readRecentOutcomes(limited, question, Date.now(), 100);
  assert.is(recent.length, 100);
  const all = await readRecentOutcomes(books, question, Date.now(), 1_000);
  assert.is(all.length, 1_000);
  assert.ok(all[299]!.timeMs - all[300]!.timeMs > 60_000);
  const other = await makeCustomers(world, own).newKey();
  // More than 24 hours ago, and less.
  await event(50, 1_450, other.id);
  await event(3, 1_430, other.id);
  const ofDay = await readRecentOutcomes(books, { ...question, keyIds: [other.id] }, Date.now(), 100);
  assert.is(ofDay.length, 3);
  await limited.close();
});

test('the last decisions of a key or a meter tell when, and why it was refused', async () => {
  const { id, key, meter } = await customers.meteredKey('2');
  const other = await customers.newKey({ externalMeterId: meter, enabled: false });
  const before = Date.now();
  for (const usage of ['1', '2', '0.5']) await customers.verify({ key, route: 'GET /a', billing: { usage } });
  await customers.verify({ key: other.key });
  const recent = async (query: Record<string, string>) => {
    const search = new URLSearchParams(query);
    return (await must(200, world.call('get', `/api/v1/verifications/recent?${search.toString()}`))).body.data;
  };
  const ofKey = await eventually('three', async () => {
    const data = await recent({ apiKeyId: id });
    return data.length === 3 ? data : undefined;
  });
  assert.equal(
    ofKey.map(({ status, reason, route, apiKeyId }: Counted) => [status, reason, route, apiKeyId]),
    [
      ['VALID', undefined, 'GET /a', id],
      ['USAGE_LIMITED', 'CREDITS_USED_UP', 'GET /a', id],
      ['VALID', undefined, 'GET /a', id],
    ],
  );
  const times = ofKey.map(({ time }: { time: string }) => Date.parse(time));
  assert.equal(
    times,
    times.toSorted((a: number, b: number) => b - a),
  );
  assert.ok(times[2] > before - 1_000 && times[0] < Date.now() + 1_000, String(times));
  const ofMeter = await eventually('four', async () => {
    const data = await recent({ workspaceId, externalMeterId: meter });
    return data.length === 4 ? data : undefined;
  });
  assert.equal([ofMeter[0].apiKeyId, ofMeter[0].reason], [other.id, 'DISABLED']);

  const limited = await customers.newKey({ limits: [{ name: 'daily', unit: 'requests', limit: 1, per: 'day' }] });
  for (let i = 0; i < 2; i++) await customers.verify({ key: limited.key });
  const [last] = await eventually('both', async () => {
    const data = await recent({ apiKeyId: limited.id });
    return data.length === 2 ? data : undefined;
  });
  assert.equal([last.reason, last.limitedBy], ['RATE_LIMIT', { on: 'key', name: 'daily', limit: 1 }]);
  for (let i = 0; i < 120; i++) await customers.verify({ key });
  await eventually('the last hundred', async () => (await recent({ apiKeyId: id })).length === 100);
});

test('recent decisions of another team, or of nobody in particular, are refused', async () => {
  const { id } = await customers.newKey();
  const { token } = await world.newTeam();
  await must(404, world.call('get', `/api/v1/verifications/recent?apiKeyId=${id}`, undefined, { token }));
  for (const query of [
    '',
    `apiKeyId=${id}&workspaceId=${workspaceId}`,
    `workspaceId=${workspaceId}`,
    'externalMeterId=m',
  ]) {
    const { error } = (await must(400, world.call('get', `/api/v1/verifications/recent?${query}`))).body;
    assert.match(error.message, 'workspaceId with externalMeterId');
  }
});

async function newWorkspace(): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
}

/** Asks for counts of a workspace. */
async function counted(query: Record<string, string>): Promise<{ data: Counted[]; wouldRefuse: Counted[] }> {
  const search = new URLSearchParams(query);
  return (await must(200, world.call('get', `/api/v1/verifications?${search.toString()}`))).body;
}

/** Counts of a cell, as processes told them: minutes in Unix seconds and calls. */
async function book(own: string, counts: [minute: number, calls: number][], boot = 'boot'): Promise<void> {
  for (const [minute, calls] of counts) {
    const cell = { team_id: world.team.id, workspace_id: own, status: 'DISABLED', reason: 'DISABLED', key_id: 'key_1' };
    const values = [{ ...cell, minute, boot, calls }];
    await books.client.insert({ table: 'refusals', values, format: 'JSONEachRow' });
  }
}

const sumOf = (rows: { count: number }[]) => rows.reduce((sum, { count }) => sum + count, 0);
const withoutStart = (rows: Counted[]) =>
  rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => name !== 'start')));

test.run();
