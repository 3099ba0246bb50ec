import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import { connectRedis } from '../../../shared/stores/redis.ts';
import { makeHoldKeys } from '../../../shared/verification/hold-keys.ts';
import { startOutcomes } from '../../../shared/verification/outcomes.ts';
import { makeVerifier } from '../../../shared/verification/verifier.ts';
import { VERIFY_BATCH_PATH, VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { inLongForm } from '../../../tests/helpers/long-form.ts';
import { metric } from '../../../tests/helpers/metric.ts';
import { eventually, spawnWorld, request, wireTo, type ProcessWorld } from '../../../tests/helpers/world.ts';

// How refusals are counted and come into the books.

type Row = Record<'workspace_id' | 'status' | 'reason' | 'limited_by' | 'key_id' | 'customer_id' | 'route', string> & {
  team_id: string;
  would_refuse: boolean;
  calls: number;
};

let world: ProcessWorld;
let customers: Customers;
let workspaceId: string;
let books: Books;

const test = suite('outcomes');
const longTest = inLongForm(test);
test.before(async () => {
  world = await spawnWorld(['verify', 'consumer']);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await books?.close();
  await world?.stop();
});

test('a refusal is counted by its status, reason, key, customer and route, whichever way it came', async () => {
  const { id, key } = await customers.newKey({ customerId: 'acme', enabled: false });
  const body = { key, route: 'GET /a' };
  const gateway = { 'x-keytally-token': world.team.token, 'x-api-key': key, 'x-original-uri': '/a' };
  await Promise.all([
    customers.verify(body),
    customers.verify(body, { url: world.api.url }),
    world.call('post', world.verify!.url + VERIFY_BATCH_PATH, { verifications: [body, body, body] }),
    request(`${world.verify!.url}/gateway/nginx/-/`, 'get', {
      token: null,
      headers: { ...gateway, 'x-original-method': 'GET' },
    }),
  ]);
  const rows = await untilCounted((row) => row.key_id === id, 6);
  const { team_id, workspace_id, status, reason, limited_by, customer_id, route, would_refuse } = rows[0]!;
  assert.equal([team_id, workspace_id, customer_id], [world.team.id, workspaceId, 'acme']);
  assert.equal([status, reason, limited_by, route, would_refuse], ['DISABLED', 'DISABLED', '', 'GET /a', false]);
  assert.ok(rows.every((row) => row.route === 'GET /a' && row.status === 'DISABLED'));
});

test('a refusal by a limit names the limit by its place and name', async () => {
  const limits = [{ name: 'daily', unit: 'requests', limit: 1, per: 'day' }];
  const byKey = await customers.newKey({ limits });
  const bySecond = await customers.newKey({ rateLimitPerSecond: 1 });
  for (const { key } of [byKey, byKey]) assert.is((await customers.verify({ key })).status, 200);
  let refused = 0;
  while (refused === 0)
    for (let i = 0; i < 3; i++)
      if ((await customers.verify({ key: bySecond.key })).body.status === 'RATE_LIMITED') refused += 1;
  const [row] = await untilCounted((one) => one.key_id === byKey.id, 1);
  assert.equal([row!.status, row!.reason, row!.limited_by], ['RATE_LIMITED', 'RATE_LIMIT', 'key/daily']);
  const [second] = await untilCounted((one) => one.key_id === bySecond.id, refused);
  assert.is(second!.limited_by, 'key/rateLimitPerSecond');
});

test('a call that a shadow limit would have refused is counted beside the refusals, and its repetition is not', async () => {
  const { id, key } = await customers.newKey({
    limits: [{ name: 'tried', unit: 'requests', limit: 1, per: 'day', shadow: true }],
  });
  for (const once of ['a', 'b', 'b', 'c']) {
    const { body } = await customers.verify({ key }, { headers: { 'Idempotency-Key': once } });
    assert.is(body.status, 'VALID');
  }
  const rows = await untilCounted((one) => one.key_id === id, 2);
  assert.ok(rows.every((row) => row.would_refuse && row.limited_by === 'key/tried' && row.status === 'VALID'));
  await afterTelling();
  assert.is(sumOf(await rowsOf((one) => one.key_id === id)), 2);
});

test('a secret that is no key of the team counts for the team of the token, without workspace and route', async () => {
  const [team, other] = [await world.newTeam(), await world.newTeam()];
  const foreign = await customers.newKey();
  const { token } = team;
  await untilKnown(token);
  for (const key of ['no key', foreign.key, foreign.key])
    assert.is((await customers.verify({ key, route: 'GET /secret' }, { token })).body.status, 'INVALID');
  await request(`${world.verify!.url}/gateway/nginx/-/`, 'get', {
    token: null,
    headers: { 'x-keytally-token': token },
  });
  const rows = await untilCounted((one) => one.team_id === team.id, 4);
  const byReason = Map.groupBy(rows, ({ reason }) => reason);
  assert.equal(
    ['MALFORMED', 'NOT_FOUND', 'NO_KEY'].map((reason) => sumOf(byReason.get(reason) ?? [])),
    [1, 2, 1],
  );
  for (const row of rows) assert.equal([row.workspace_id, row.key_id, row.route, row.status], ['', '', '', 'INVALID']);
  assert.equal(await rowsOf((one) => one.team_id === other.id), []);
});

test('a token that is limited to another workspace learns nothing of a key, and neither do its counts', async () => {
  const elsewhere = (await must(201, world.call('post', '/api/v1/workspace', { name: 'v' }))).body.workspace.id;
  const token = await world.newToken(world.team.id, ['key:verify'], [elsewhere]);
  await untilKnown(token);
  const { id, key } = await customers.newKey({ enabled: false });
  assert.is((await customers.verify({ key }, { token })).body.status, 'INVALID');
  await untilCounted((one) => one.team_id === world.team.id && one.reason === 'NOT_FOUND', 1);
  assert.equal(await rowsOf((one) => one.key_id === id), []);
});

test('a VALID call leaves no count', async () => {
  const { id, key } = await customers.newKey();
  await customers.verify({ key });
  await afterTelling();
  assert.equal(await rowsOf((one) => one.key_id === id), []);
});

test('the refusals of a key are kept one by one, at most ten a second, with the limit that refused', async () => {
  const { id, key } = await customers.newKey({
    limits: [{ name: 'daily', unit: 'requests', limit: 1, per: 'day' }],
  });
  const [began, beganAt] = [performance.now(), Date.now()];
  for (let i = 0; i < 200; i++) await customers.verify({ key, route: 'GET /a' });
  const seconds = (performance.now() - began) / 1_000;
  await untilCounted((one) => one.key_id === id, 199);
  const recent = await eventually('the last ones are in the books', async () => {
    const query = 'select * from recent_refusals final where key_id = {id:String} order by time';
    const found = await read<Record<string, string>>(query, { id });
    return found.length >= 10 ? found : undefined;
  });
  assert.ok(recent.length <= 10 * (seconds + 2), `${recent.length} in ${seconds} s`);
  assert.equal(JSON.parse(recent[0]!.limited_by!), { on: 'key', name: 'daily', limit: 1 });
  assert.equal([recent[0]!.workspace_id, recent[0]!.reason, recent[0]!.route], [workspaceId, 'RATE_LIMIT', 'GET /a']);
  const firstAt = Date.parse(`${recent[0]!.time}Z`);
  assert.ok(firstAt > beganAt - 1_000 && firstAt < Date.now() + 1_000, recent[0]!.time);
});

longTest('a verify process that is killed loses the counts of its last second, and no earlier ones', async () => {
  const { id, key } = await customers.newKey({ enabled: false });
  const killed = await world.start('verify');
  for (let i = 0; i < 50; i++) await customers.verify({ key }, { url: killed.url });
  await untilCounted((one) => one.key_id === id, 50);
  for (let i = 0; i < 5; i++) await customers.verify({ key }, { url: killed.url });
  await killed.stop('SIGKILL');
  for (let i = 0; i < 7; i++) await customers.verify({ key });
  await eventually('what another process counts is added', async () => {
    const sum = sumOf(await rowsOf((one) => one.key_id === id));
    return sum >= 57 && sum <= 62;
  });
  await afterTelling();
  const stopped = await world.start('verify');
  const before = sumOf(await rowsOf((one) => one.key_id === id));
  for (let i = 0; i < 9; i++) await customers.verify({ key }, { url: stopped.url });
  await stopped.stop('SIGTERM');
  await untilCounted((one) => one.key_id === id, before + 9);
});

longTest('counts wait while the outbox has no room to spare, and no verification does', async () => {
  await world.consumer!.stop();
  // A tenth of it is two events.
  const small = await world.start('verify', { OUTBOX_MAX_ENTRIES: '20' });
  const { url } = small;
  const [valid, refused] = [await customers.newKey(), await customers.newKey({ enabled: false })];
  for (let i = 0; i < 5; i++) assert.is((await customers.verify({ key: valid.key }, { url })).body.status, 'VALID');
  await eventually('it is seen', async () => (await metric(url, 'keytally_outbox_entries')) >= 5);
  const waiting = await metric(url, 'keytally_outbox_entries');
  for (let i = 0; i < 3; i++)
    assert.is((await customers.verify({ key: refused.key }, { url })).body.status, 'DISABLED');
  await eventually('they could be told', async () => (await metric(url, 'keytally_refusals_total')) === 3);
  const checked = await metric(url, 'keytally_outbox_entries');
  assert.is(checked, waiting, 'the outbox has events alone');
  world.consumer = await world.start('consumer');
  await untilCounted((one) => one.key_id === refused.id, 3);
  assert.is(await metric(url, 'keytally_dropped_outcomes_total'), 0);
  await small.stop();
});

test('refusals are a metric by reason', async () => {
  const { key } = await customers.newKey({ enabled: false });
  const before = await metric(world.verify!.url, 'keytally_refusals_total');
  await customers.verify({ key });
  await eventually('told', async () => (await metric(world.verify!.url, 'keytally_refusals_total')) > before);
});

longTest('consumers that are killed while they insert lose no count, and none counts twice', async () => {
  await world.consumer!.stop();
  const { id, key } = await customers.newKey({ enabled: false });
  let [calls, goesOn] = [0, true];
  const refusing = (async () => {
    for (; goesOn; calls += 1) assert.is((await customers.verify({ key })).body.status, 'DISABLED');
  })();
  const counted = async () => sumOf(await rowsOf((one) => one.key_id === id));
  for (let killed = 0; killed < 3; killed++) {
    const consumer = await world.start('consumer');
    const before = await counted();
    await eventually('it inserts', async () => (await counted()) > before);
    await consumer.stop('SIGKILL');
  }
  goesOn = false;
  await refusing;
  world.consumer = await world.start('consumer');
  await untilCounted((one) => one.key_id === id, calls);
  await afterTelling();
  assert.is(await counted(), calls);
});

longTest('counting refusals sends Redis not a byte for calls that are VALID', async () => {
  const { key: plain } = await customers.newKey();
  const { key: metered } = await customers.meteredKey('1000');
  const { key: limited } = await customers.newKey({
    limits: [{ name: 'daily', unit: 'requests', limit: 1_000, per: 'day' }],
  });
  const caller = { tokenId: 't', teamId: world.team.id, permissions: new Set<string>(), workspaceIds: undefined };
  const [log, metrics] = [makeLogger('test', 'error'), makeMetrics('test')];
  const config = { VERIFY_DEADLINE_MS: 10_000, VERIFY_MAX_WAITING: 4_000 };
  const bytesOf = async (isCounting: boolean, keys: string[]) => {
    let bytes = 0;
    const wire = await wireTo(world.env.REDIS_URL!, () => (some) => void (bytes += some.length));
    const redis = connectRedis(wire.url, log, systemClock);
    await redis.connected(60_000);
    const outcomes = startOutcomes({
      redis,
      hasSpareRoom: () => true,
      metrics,
      log,
      random: Math.random,
    });
    const { verify } = makeVerifier({
      redis,
      holdKeys: makeHoldKeys(redis, config.VERIFY_DEADLINE_MS),
      outboxFull: () => false,
      requireMemory: () => {},
      witness: () => {},
      noteOutcome: isCounting ? outcomes.note : () => {},
      config,
      metrics,
    });
    const decide = async (key: string) => {
      const call = { caller, body: { key }, clientAddress: '192.0.2.1', idempotencyKey: undefined };
      return (await verify(call)).status;
    };
    // Each key is looked up once.
    for (const key of keys) await decide(key);
    const before = bytes;
    const statuses = new Set<string>();
    for (let i = 0; i < 100; i++) for (const key of keys) statuses.add(await decide(key));
    await outcomes.stop();
    const sent = bytes - before;
    await redis.close();
    await wire.cut();
    return { sent, statuses: [...statuses] };
  };
  for (const key of [plain, metered, limited]) {
    const [without, counting] = [await bytesOf(false, [key]), await bytesOf(true, [key])];
    assert.equal(counting, without);
    assert.equal(counting.statuses, ['VALID']);
  }
  const { key: refused } = await customers.newKey({ enabled: false });
  assert.ok((await bytesOf(true, [refused])).sent > (await bytesOf(false, [refused])).sent);
});

/** Waits until the rows that match count so many calls, and gives them; fails if they count more. */
async function untilCounted(matches: (row: Row) => boolean, calls: number): Promise<Row[]> {
  const rows = await eventually(`${calls} calls are counted`, async () => {
    const found = await rowsOf(matches);
    return sumOf(found) >= calls ? found : undefined;
  });
  assert.is(sumOf(rows), calls);
  return rows;
}

async function rowsOf(matches: (row: Row) => boolean): Promise<Row[]> {
  const rows = await read<Omit<Row, 'calls'> & { calls: string }>('select * from refusals final');
  return rows.map((row) => ({ ...row, calls: Number(row.calls) })).filter(matches);
}

/** Waits until what was refused before is in the books: a refusal of now is. */
async function afterTelling(): Promise<void> {
  const { id, key } = await customers.newKey({ enabled: false });
  for (const url of [world.verify!.url, world.api.url])
    await request(url + VERIFY_PATH, 'post', { token: world.team.token, body: { key } });
  await untilCounted((one) => one.key_id === id, 2);
}

/** A new token is in force everywhere: a request with it is refused for its body alone. */
async function untilKnown(token: string): Promise<void> {
  await eventually('the token is known', async () => (await customers.verify({}, { token })).status === 400);
}

function sumOf(rows: { calls: number }[]): number {
  return rows.reduce((sum, { calls }) => sum + calls, 0);
}

async function read<Found>(query: string, query_params: Record<string, unknown> = {}): Promise<Found[]> {
  return (await books.client.query({ query, query_params, format: 'JSONEachRow' })).json<Found>();
}

test.run();
