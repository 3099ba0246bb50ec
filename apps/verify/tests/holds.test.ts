import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { VERIFY_BATCH_PATH } from '../../../shared/verification/operation.ts';
import { passTime, recordOf } from '../../../tests/helpers/pass-time.ts';
import { makeCustomers, must, newWorkspace, request, joinWorkspace } from '../../../tests/helpers/world.ts';
import type { Answer } from '../../../tests/helpers/world.ts';

// Section "Holds" of the contract, on the verify server and on the api. tests/accounts has its arithmetic.

const CLOCKS_APART_MS = 1_000;

const { world, workspaceId, customers } = await joinWorkspace();
const { redis } = world;

type Given = { usageName?: string; expiresIn?: number; onExpiry?: string };
type Options = Given & { url?: string; headers?: Record<string, string> };

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

const amounts = async (meter: string) => amountsOf(await customers.billing(meter));

function amountsOf(billing: object): string {
  const record = billing as Record<string, string>;
  const { usedCredits, availableCredits, heldCredits, expiredCredits, totalCredits } = record;
  const micros = (text = '') => Math.round(Number(text) * 1e6);
  const sum = [usedCredits, availableCredits, heldCredits, expiredCredits].reduce((all, one) => all + micros(one), 0);
  assert.is(sum, micros(totalCredits), 'the identity');
  return `${usedCredits} used ${heldCredits} held ${availableCredits} available`;
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
  for (const [fields, usage, ...wanted] of [
    [{ totalCredits: '100' }, '60', 'false 60 5 35', 'true 120 0 -20'],
    [{ totalCredits: '100', spendCap: '10' }, '5.5', 'true 5.5 5 89.5', 'true 11 0 89'],
    [{ totalCredits: '0', allowOverages: true }, '9', 'true 9 5 -14', 'true 18 0 -18'],
  ] as const) {
    const { key } = await customers.newKey({ externalMeterId: await customers.newMeter(fields) });
    const told = [];
    for (const holdId of [await held(key, '5'), await held(key, '5')]) {
      const { body } = await must(200, capture(holdId, usage));
      told.push(`${body.capture.overdrawn} ${amountsOf(body.billing).replaceAll(/ [a-z]+/g, '')}`);
    }
    assert.equal(told, wanted);
  }
});

test('a hold is extended from now on, and one that has ended is not; a late capture says so, and is in the books', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('100');
    const [holdId, other] = [await held(key, '30', { url }), await held(key, '1', { url, onExpiry: 'charge' })];
    const before = Date.now();
    const { body } = await must(200, extend(holdId, 600, { url }));
    assert.equal([body.hold.id, body.hold.credits], [holdId, '30']);
    assert.ok(isSince(before, body.hold.expiresAt - 600_000), `${body.hold.expiresAt - before} ms`);
    assert.is(amountsOf(body.billing), '0 used 31 held 69 available');
    await passTime(world, redis, (await customers.billing(meter)).id, 90_000);
    assert.is(await amounts(meter), '1 used 30 held 69 available', 'the other one has ended');
    assert.equal([await codeOf(extend(other, 60, { url })), await codeOf(release(other, { url }))], [40951, 40951]);
    const { capture: late } = (await must(200, capture(other, '20', { url }))).body;
    assert.equal(late, { holdId: other, usage: '20', late: true, overdrawn: false });
    assert.is(await amounts(meter), '20 used 30 held 50 available');
    assert.is(await codeOf(capture(holdId, '9000000000', { url })), 40006);
    await world.booked();
    assert.is(await customers.usage(meter), '20');
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

test('a record has up to 10,000 open holds, also by a batch', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const { shard } = await recordOf(world.sql, (await customers.billing(meter)).id);
  const ends = keyspace.holdEnds(shard, workspaceId, meter);
  const end = Date.now() + 3_600_000;
  await redis.node(shard).client.zadd(ends, ...Array.from({ length: 9_998 }, (_, i) => [end, `open-${i}`]).flat());
  const one = { key, billing: { usage: '1', hold: { expiresIn: 60 } } };
  const verifications = Array.from({ length: 4 }, () => one);
  const answer = await must(200, world.call('post', world.verify.url + VERIFY_BATCH_PATH, { verifications }));
  const { results } = answer.body;
  assert.is(results.map((one: any) => one.error?.code ?? one.status).join(), 'VALID,VALID,40950,40950');
  assert.is(await codeOf(hold(key, '1')), 40950);
  await must(200, release(results[0].hold.id));
  await must(200, hold(key, '1'));
});

test('a hold can be captured after its key was deleted, disabled or rotated, or its workspace was deleted', async () => {
  const other = await newWorkspace(world);
  for (const [where, method, path, body] of [
    [workspaceId, 'delete', '/api-key/{}'],
    [workspaceId, 'patch', '/api-key/{}', { enabled: false }],
    [workspaceId, 'post', '/api-key/{}/rotate', {}],
    [other, 'delete', ''],
  ] as const) {
    const { id, key, meter } = await makeCustomers(world, where).meteredKey('100');
    const holdId = await held(key, '30');
    await must(200, world.call(method, `/api/v1/workspace/${where}${path.replace('{}', id)}`, body));
    const { billing } = (await must(200, capture(holdId, '12'))).body;
    assert.equal([billing.externalMeterId, amountsOf(billing)], [meter, '12 used 0 held 88 available']);
  }
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
