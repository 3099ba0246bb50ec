import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { makeCustomers, must, newWorkspace } from '../../../tests/helpers/customers.ts';
import { passTime, recordOf } from '../../../tests/helpers/pass-time.ts';
import { joinWorld, request, type Answer } from '../../../tests/helpers/world.ts';

// Section "Holds" of the contract, line by line, on the verify server and on the api.

const CLOCKS_APART_MS = 1_000;

const world = await joinWorld();
const { redis } = world;
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);

type Options = {
  usageName?: string;
  expiresIn?: number;
  onExpiry?: string;
  url?: string;
  headers?: Record<string, string>;
};

function hold(key: string, usage: string, { url, headers = {}, usageName, ...options }: Options = {}): Promise<Answer> {
  const body = { key, billing: { usage, ...(usageName && { usageName }), hold: { expiresIn: 60, ...options } } };
  return customers.verify(body, { ...(url && { url }), headers });
}

async function held(key: string, usage: string, options: Options = {}): Promise<string> {
  const { body } = await must(200, hold(key, usage, options));
  assert.is(body.status, 'VALID', JSON.stringify(body));
  return body.hold.id;
}

type Asked = { url?: string; token?: string };
function ask(what: string, body: object, { url = world.verify.url, token = world.team.token }: Asked = {}) {
  return request(`${url}/api/v1/usage/${what}`, 'post', { token, body });
}
const capture = (holdId: string, usage: string, asked?: Asked) => ask('capture', { holdId, usage }, asked);
const release = (holdId: string, asked?: Asked) => ask('release', { holdId }, asked);
const extend = (holdId: string, expiresIn: number, asked?: Asked) => ask('extend', { holdId, expiresIn }, asked);
const codeOf = async (answer: Promise<Answer>) => (await answer).body.error?.code as number | undefined;

async function amounts(meter: string): Promise<string> {
  return amountsOf(await customers.billing(meter));
}

function amountsOf(billing: object): string {
  const record = billing as Record<string, string>;
  const { usedCredits, availableCredits, heldCredits, expiredCredits, totalCredits } = record;
  const micros = (text = '') => Math.round(Number(text) * 1e6);
  const sum = [usedCredits, availableCredits, heldCredits, expiredCredits].reduce((all, one) => all + micros(one), 0);
  assert.is(sum, micros(totalCredits), 'the identity');
  return `${usedCredits} used ${heldCredits} held ${availableCredits} available`;
}

/** Lets the ends of a record's holds pass. */
async function afterTheEnd(meter: string): Promise<void> {
  await passTime(world, redis, (await customers.billing(meter)).id, 90_000);
}

/** Whether Redis's clock showed an instant between `before` and now; it may be apart from ours. */
function isSince(before: number, atMs: number): boolean {
  return atMs > before - CLOCKS_APART_MS && atMs < Date.now() + CLOCKS_APART_MS;
}

const servers = () => [world.verify.url, world.api.url];

test('a hold moves its amount from available to held, a capture debits its usage and gives back the rest, a release all', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('100');
    const before = Date.now();
    const { body } = await must(200, hold(key, '30.5', { url }));
    assert.equal([body.status, body.hold.credits], ['VALID', '30.5']);
    assert.match(body.hold.id, /^hold_[A-Za-z0-9_-]{50,}$/);
    assert.ok(isSince(before, body.hold.expiresAt - 60_000), `${body.hold.expiresAt - before} ms`);
    assert.is(amountsOf(body.billing), '0 used 30.5 held 69.5 available');
    assert.is(await amounts(meter), '0 used 30.5 held 69.5 available');
    assert.is((await hold(key, '69.500001', { url })).body.reason, 'CREDITS_USED_UP');

    const holdId = body.hold.id;
    const captured = (await must(200, capture(holdId, '12.25', { url }))).body;
    assert.equal(captured.capture, { holdId, usage: '12.25', late: false, overdrawn: false });
    assert.is(amountsOf(captured.billing), '12.25 used 0 held 87.75 available');
    assert.equal([captured.billing.workspaceId, captured.billing.externalMeterId], [workspaceId, meter]);
    assert.is(await codeOf(release(holdId, { url })), 40951, 'it is captured');

    const other = await held(key, '30', { url });
    for (let again = 0; again < 2; again++)
      assert.equal((await must(200, release(other, { url }))).body.release, { holdId: other });
    assert.is(await codeOf(capture(other, '1', { url })), 40951, 'it is released');
    assert.is(await amounts(meter), '12.25 used 0 held 87.75 available');
  }
});

test('on an unmetered key: VALID without a hold, and booked as its limit counts it', async () => {
  const limits = [{ name: 'monthly', unit: 'credits', limit: '100', per: 'month' }];
  const { id, key } = await customers.newKey({ limits });
  const { body } = await must(200, hold(key, '5'));
  assert.equal([body.status, body.hold, body.billing, body.limits[0].remaining], ['VALID', undefined, undefined, '95']);
  await world.booked();
  const query = 'select kind, cost_micros from usage_events final where key_id = {id:String}';
  const answer = await world.books.client.query({ query, query_params: { id }, format: 'JSONCompactEachRow' });
  assert.is(String(await answer.json()), 'verification,5000000');
});

test('a capture of more than was held is debited too, and overdrawn tells when credits or the spend cap are passed', async () => {
  const holdTwo = async (fields: object, usage: string) => {
    const { key } = await customers.newKey({ externalMeterId: await customers.newMeter(fields) });
    return [await held(key, usage), await held(key, usage)] as const;
  };
  const captured = async (holdId: string, usage: string) => {
    const { body } = await must(200, capture(holdId, usage));
    return `${body.capture.overdrawn} ${amountsOf(body.billing)}`;
  };
  const [first, second] = await holdTwo({ totalCredits: '100' }, '30');
  assert.is(await captured(first, '60'), 'false 60 used 30 held 10 available');
  assert.is(await captured(second, '45'), 'true 105 used 0 held -5 available');
  const overage = await holdTwo({ totalCredits: '0', allowOverages: true, spendCap: '10' }, '5');
  assert.is(await captured(overage[0], '5'), 'true 5 used 5 held -10 available');
  const [within, beyond] = await holdTwo({ totalCredits: '100', spendCap: '10' }, '5');
  assert.is(await captured(within, '5'), 'false 5 used 5 held 90 available');
  assert.is(await captured(beyond, '5.000001'), 'true 10.000001 used 0 held 89.999999 available');
});

test('changed settings are in force for the next capture, however many there were before', async () => {
  const meter = await customers.newMeter({ totalCredits: '100', spendCap: '10' });
  const { key } = await customers.newKey({ externalMeterId: meter });
  for (const overdrawn of [false, false, true]) {
    const { body } = await must(200, capture(await held(key, '1'), '4'));
    assert.equal([body.capture.overdrawn, body.billing.spendCap], [overdrawn, '10']);
  }
  const { id } = await customers.billing(meter);
  await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, { spendCap: '50' }));
  const { body } = await must(200, capture(await held(key, '1'), '4'));
  assert.equal([body.capture.overdrawn, body.billing.spendCap, body.billing.usedCredits], [false, '50', '16']);
});

test('a capture past 9000000000 is 400, and the hold stays', async () => {
  const meter = await customers.newMeter({ totalCredits: '9000000000' });
  const { key } = await customers.newKey({ externalMeterId: meter });
  await must(200, customers.verify({ key, billing: { usage: '5' } }));
  const holdId = await held(key, '1');
  assert.is(await codeOf(capture(holdId, '9000000000')), 40006);
  assert.is(await codeOf(capture(holdId, '9000000001')), 40001);
  assert.is(await amounts(meter), '5 used 1 held 8999999994 available');
  await must(200, capture(holdId, '8999999995'));
});

test('a hold is extended only while it is open, counted from now', async () => {
  const { key, meter } = await customers.meteredKey('100');
  for (const url of servers()) {
    const holdId = await held(key, '30', { url });
    const before = Date.now();
    const { body } = await must(200, extend(holdId, 600, { url }));
    assert.equal([body.hold.id, body.hold.credits], [holdId, '30']);
    assert.ok(isSince(before, body.hold.expiresAt - 600_000), `${body.hold.expiresAt - before} ms`);
    assert.is(amountsOf(body.billing), '0 used 30 held 70 available');
    const other = await held(key, '1', { url });
    await afterTheEnd(meter);
    assert.is(await amounts(meter), '0 used 30 held 70 available', 'the other one has ended');
    assert.is(await codeOf(extend(other, 60, { url })), 40951);
    await must(200, release(holdId, { url }));
    assert.is(await codeOf(extend(holdId, 60, { url })), 40951);
  }
});

test('a hold that ended is given back or charged, and a late capture debits its usage, less what was charged', async () => {
  for (const [onExpiry, ended] of [
    ['release', '0 used 0 held 100 available'],
    ['charge', '30 used 0 held 70 available'],
  ] as const) {
    const { key, meter } = await customers.meteredKey('100');
    const holdId = await held(key, '30', { onExpiry });
    await afterTheEnd(meter);
    assert.is(await amounts(meter), ended);
    assert.is(await codeOf(release(holdId)), onExpiry === 'charge' ? 40951 : undefined);
    const { body } = await must(200, capture(holdId, '20'));
    assert.equal(body.capture, { holdId, usage: '20', late: true, overdrawn: false });
    assert.equal((await must(200, capture(holdId, '20'))).body.capture, body.capture);
    assert.is(await amounts(meter), '20 used 0 held 80 available');
    assert.equal([await codeOf(release(holdId)), await codeOf(capture(holdId, '21'))], [40951, 40951]);
    await world.booked();
    assert.is(await customers.usage(meter), '20', 'in the books, too');
  }
});

test('an idempotent verify answers the same hold, and with other options of the hold it is 409', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const headers = { 'Idempotency-Key': 'once' };
  const [first, second] = [await hold(key, '30', { headers }), await hold(key, '30', { headers })];
  assert.equal(second.body.hold, first.body.hold);
  assert.is(await amounts(meter), '0 used 30 held 70 available');
  for (const changed of [{ expiresIn: 61 }, { onExpiry: 'charge' }, { usageName: 'other' }])
    assert.is(await codeOf(hold(key, '30', { headers, ...changed })), 40904);
  assert.is(await codeOf(hold(key, '31', { headers })), 40904);
  assert.is(await codeOf(customers.verify({ key, billing: { usage: '30' } }, { headers })), 40904);
  await must(200, capture(first.body.hold.id, '1'));
  assert.equal((await hold(key, '30', { headers })).body.hold, first.body.hold);
});

test('verifications of a batch may hold, each by itself, up to 10,000 open ones of a record', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const batch = async (usages: string[]) => {
    const one = (usage: string) => ({ key, billing: { usage, hold: { expiresIn: 60 } } });
    const options = { token: world.team.token, body: { verifications: usages.map(one) } };
    const { results } = (await must(200, request(`${world.verify.url}/api/v1/api-key/verify/batch`, 'post', options)))
      .body;
    return results.map((one: any) => one.hold?.id ?? one.error?.code ?? one.reason) as (string | number)[];
  };
  const [first, tooMuch, last] = await batch(['60', '60', '30']);
  assert.is(tooMuch, 'CREDITS_USED_UP');
  assert.is(await amounts(meter), '0 used 90 held 10 available');
  await must(200, capture(String(first), '1'));
  await must(200, capture(String(last), '2'));
  assert.is(await amounts(meter), '3 used 0 held 97 available');

  const { shard } = await recordOf(world.sql, (await customers.billing(meter)).id);
  const ends = keyspace.holdEnds(shard, workspaceId, meter);
  const end = Date.now() + 3_600_000;
  await redis.node(shard).client.zadd(ends, ...Array.from({ length: 9_998 }, (_, i) => [end, `open-${i}`]).flat());
  const [allowed, also, ...refused] = await batch(['1', '1', '1', '1']);
  assert.equal(refused, [40950, 40950]);
  assert.is(await codeOf(hold(key, '1')), 40950);
  for (const holdId of [allowed, also]) await must(200, release(String(holdId)));
  await must(200, hold(key, '1'));
});

test('a hold can be captured after its key was deleted, disabled or rotated, or its workspace was deleted, and is charged at its end', async () => {
  const path = (id: string) => `/api/v1/workspace/${workspaceId}/api-key/${id}`;
  for (const end of [
    (id: string) => world.call('delete', path(id)),
    (id: string) => world.call('patch', path(id), { enabled: false }),
    (id: string) => world.call('post', `${path(id)}/rotate`, {}),
  ]) {
    const { id, key } = await customers.meteredKey('100');
    const holdId = await held(key, '30');
    await must(200, end(id));
    await must(200, capture(holdId, '3'));
  }
  const other = await newWorkspace(world);
  const { key, meter } = await makeCustomers(world, other).meteredKey('100');
  const holdId = await held(key, '30', { expiresIn: 600 });
  const { id } = (await must(200, hold(key, '5', { onExpiry: 'charge' }))).body.billing;
  await must(200, world.call('delete', `/api/v1/workspace/${other}`));
  await passTime(world, redis, id, 90_000);
  assert.is((await hold(key, '1')).body.status, 'INVALID');
  const { body } = await must(200, capture(holdId, '12'));
  assert.is(body.billing.externalMeterId, meter);
  assert.is(amountsOf(body.billing), '17 used 0 held 83 available');
});

test('an id that was changed or made up is 404, and a token of the workspace may settle the right one', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const holdId = await held(key, '30');
  // Some bits of the last character are no byte's: an id has one text for all that.
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet.indexOf(holdId.at(-1)!);
  const changed = [1, 32].map((bit) => holdId.slice(0, -1) + alphabet[last ^ bit]!);
  for (const url of servers())
    for (const wrong of ['hold_', 'hold_AAAA', ...changed, `${holdId}AA`, `${holdId}=`, `x${holdId}`, 'nothing'])
      assert.is(await codeOf(capture(wrong, '1', { url })), 40450, wrong);
  assert.is(await amounts(meter), '0 used 30 held 70 available');
  const token = await world.newToken(world.team.id, ['key:verify'], [workspaceId]);
  await must(200, capture(holdId, '3', { token }));
});

test('the api lists what is held, since when, until when, and by which key, page by page', async () => {
  const { id: apiKeyId, key, meter } = await customers.meteredKey('100');
  const { id } = await customers.billing(meter);
  const before = Date.now();
  const ids = [];
  for (const expiresIn of [300, 100, 200, 100])
    ids.push(await held(key, '2.5', { expiresIn, usageName: 'tokens', onExpiry: 'charge' }));
  const list = async (query: string) => {
    const { body } = await must(200, world.call('get', `/api/v1/customer-billing/${id}/holds${query}`));
    return { ...body, ids: body.holds.map((one: { id: string }) => one.id) };
  };
  const first = await list('?limit=3');
  assert.equal(first.ids, [ids[1], ids[3], ids[2]]);
  const { id: _, createdAt, expiresAt, ...rest } = first.holds[2];
  assert.equal(rest, { credits: '2.5', apiKeyId, usageName: 'tokens', onExpiry: 'charge' });
  assert.ok(isSince(before, Date.parse(createdAt)), createdAt);
  assert.is(expiresAt - Date.parse(createdAt), 200_000);
  const next = await list(`?limit=3&cursor=${first.nextCursor}`);
  assert.equal([next.ids, next.nextCursor], [[ids[0]], undefined]);
  for (const holdId of ids) await must(200, release(holdId));
  assert.equal((await list('')).holds, []);
});
