import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey } from '../../../../shared/books/billing-refs.ts';
import { readRecord } from '../../../../shared/stores/records.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { recordOf } from '../../../../tests/helpers/pass-time.ts';
import { connectRedisOf } from '../../../../tests/helpers/world-redis.ts';
import { joinWorld, once, wireTo, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/customer-billing';
let world: World;
let redis: ShardedRedis;
let workspaceId: string;
const test = suite('customer billing');
test.before(async () => {
  world = await joinWorld();
  redis = await connectRedisOf(world);
  workspaceId = await newWorkspace();
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('a billing record is created, read by meter and by id, and changed', async () => {
  const externalMeterId = 'meter / 1 ü';
  const made = await must(201, world.call('post', PATH, { workspaceId, externalMeterId }));
  const { billing } = made.body;
  assert.match(billing.id, /^bill_[0-9a-z]{26}$/);
  assert.match(billing.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(billing, {
    id: billing.id,
    workspaceId,
    externalMeterId,
    totalCredits: '0',
    usedCredits: '0',
    availableCredits: '0',
    heldCredits: '0',
    expiredCredits: '0',
    allowOverages: false,
    createdAt: billing.createdAt,
    updatedAt: billing.createdAt,
  });
  assert.equal((await get(externalMeterId)).body, made.body);
  assert.equal((await world.call('get', `${PATH}/${billing.id}`)).body, made.body);

  const change = async (body: object) => (await must(200, world.call('patch', `${PATH}/${billing.id}`, body))).body;
  const changed = (await change({ allowOverages: true, spendCap: '007.50' })).billing;
  assert.equal(changed, { ...billing, allowOverages: true, spendCap: '7.5', updatedAt: changed.updatedAt });
  const cleared = await change({ spendCap: null });
  assert.is(cleared.billing.spendCap, undefined);
  assert.is(cleared.billing.allowOverages, true, 'what a PATCH does not name stays');
  assert.equal((await get(externalMeterId)).body, cleared);
});

test('a new record has the given settings, in canonical form; an alert names a limit by any name that it can have', async () => {
  const name = 'n'.repeat(128);
  const limits = [{ name, unit: 'requests', limit: 10, per: 'day' }];
  const alerts = [{ name: 'low', when: { limit: name, usedPercent: 80 } }];
  const given = { totalCredits: '0012.340000', allowOverages: true, spendCap: '0', limits, alerts };
  const billing = await newRecord('given', given);
  assert.equal(
    [billing.totalCredits, billing.spendCap, billing.allowOverages, billing.alerts],
    ['12.34', '0', true, alerts],
  );
});

test('a workspace has one record for each meter, also when several are created at once', async () => {
  const body = { workspaceId, externalMeterId: 'raced' };
  const answers = await Promise.all(Array.from({ length: 8 }, () => world.call('post', PATH, body)));
  const codes = answers.map((answer) => answer.body.error?.code ?? answer.status).toSorted((a, b) => a - b);
  assert.equal(codes, [201, ...Array<number>(7).fill(40902)]);
  await must(201, world.call('post', PATH, { ...body, workspaceId: await newWorkspace() }));
});

test('bad input is a 400 that names the field, and an id of a wrong form a 404', async () => {
  const { id } = await newRecord('bad');
  const ids = { workspaceId, externalMeterId: 'new' };
  for (const [method, path, body, field] of [
    ['post', '', { workspaceId }, '/externalMeterId'],
    ['post', '', { externalMeterId: 'new' }, '/workspaceId'],
    ['post', '', { workspaceId, externalMeterId: '' }, '/externalMeterId'],
    ['post', '', { workspaceId, externalMeterId: 'x'.repeat(257) }, '/externalMeterId'],
    ['post', '', { ...ids, totalCredits: 5 }, '/totalCredits'],
    ['post', '', { ...ids, totalCredits: '-1' }, '/totalCredits'],
    ['post', '', { ...ids, totalCredits: '1.0000001' }, '/totalCredits'],
    ['post', '', { ...ids, totalCredits: '9000000000.000001' }, '/totalCredits'],
    ['post', '', { ...ids, spendCap: '1e3' }, '/spendCap'],
    ['post', '', { ...ids, allowOverages: 'yes' }, '/allowOverages'],
    ['post', '', { ...ids, allowOverage: true }, '/allowOverage'],
    ['patch', `/${id}`, { totalCredits: '5' }, '/totalCredits'],
    ['patch', `/${id}`, { spendCap: '9000000001' }, '/spendCap'],
    ['patch', `/${id}`, { allowOverages: null }, '/allowOverages'],
    ['get', '?workspaceId=x', undefined, 'externalMeterId'],
    ['get', `/${id}/ledger?limit=0`, undefined, 'limit'],
  ] as const) {
    const { error } = (await must(400, world.call(method, PATH + path, body))).body;
    assert.is(error.code, 40001);
    assert.ok(
      error.details.some((detail: { path: string }) => detail.path === field),
      `${field}: ${JSON.stringify(error)}`,
    );
  }
  assert.is((await get('new')).body.error.code, 40404, 'nothing was made');
  for (const wrong of ['x', '%00', '..%2f'])
    for (const [method, path, body] of [
      ['get', wrong, undefined],
      ['patch', wrong, {}],
      ['get', `${wrong}/ledger`, undefined],
    ] as const)
      assert.is((await world.call(method, `${PATH}/${path}`, body)).body.error.code, 40404, `${method} ${path}`);
  const nowhere = await world.call('post', PATH, { workspaceId: 'a\u0000', externalMeterId: 'm' });
  assert.is(nowhere.body.error.code, 40302);
});

test('usedCredits is what Redis counts, and the snapshot where Redis does not know the record', async () => {
  const record = await recordOf(world.sql, (await newRecord('used')).id);
  const { client } = redis.node(record.shard);
  const used = async () => (await get('used')).body.billing.usedCredits;
  await world.sql`update billing_records set used_micros = 3000000 where id = ${record.id}`;
  assert.is(await used(), '0', 'a record in force without a count has used nothing');
  await client.hset(billingKey(record), 'u', '8999999999999999');
  assert.is(await used(), '8999999999.999999');
  await client.hdel(billingKey(record), 's');
  assert.is(await used(), '3', 'a record that is not there is not a record without use');
});

test('while Redis is unavailable, a record answers its snapshot, and no refill or adjustment is stored', async () => {
  const { id } = await newRecord('away', { totalCredits: '10' });
  await world.sql`update billing_records set used_micros = 4500000 where id = ${id}`;
  const wire = await wireTo(world.env.REDIS_URL!);
  const api = await world.start('api', { REDIS_URL: wire.url });
  await wire.cut();
  const query = new URLSearchParams({ workspaceId, externalMeterId: 'away' }).toString();
  const read = await must(200, world.call('get', `${api.url}${PATH}?${query}`));
  assert.is(read.body.billing.usedCredits, '4.5');
  const refill = { workspaceId, externalMeterId: 'away', refill: 1 };
  const headers = once();
  for (const [path, body, used] of [
    ['refill', refill, headers],
    [`${id}/adjustment`, { amount: '1', reason: 'r' }, once()],
  ] as const) {
    const refused = await world.call('post', `${api.url}${PATH}/${path}`, body, { headers: used });
    assert.equal([refused.status, refused.body.error.code], [503, 50301], path);
  }
  assert.equal((await world.call('get', `${PATH}/${id}/ledger`)).body, { ledger: [] });
  assert.is((await world.sql`select from adjustments where billing_id = ${id}`).count, 0);
  const repeated = await world.call('post', `${PATH}/refill`, refill, { headers });
  assert.is(repeated.body.billing.totalCredits, '11', 'the refusal was not kept: repeating it does it');
});

test('settings and refills are in force with the answer', async () => {
  const { id } = await newRecord('forced', { totalCredits: '1' });
  await must(200, world.call('post', `${PATH}/refill`, { workspaceId, externalMeterId: 'forced', refill: 1.5 }));
  const record = await recordOf(world.sql, id);
  const settings = await redis.node(record.shard).client.hget(billingKey(record), 's');
  const { limitMicros, answerPart } = readRecord('billing', settings!);
  assert.is(limitMicros, '2500000');
  const { usedCredits, availableCredits, heldCredits, expiredCredits, ...said } = (
    await world.call('get', `${PATH}/${id}`)
  ).body.billing;
  assert.equal(JSON.parse(`{${answerPart}}`), said, 'verify answers the same record');
  assert.equal([usedCredits, availableCredits, heldCredits, expiredCredits], ['0', '2.5', '0', '0']);
});

test.run();

async function newWorkspace(): Promise<string> {
  return (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id;
}

async function newRecord(externalMeterId: string, settings: object = {}) {
  return (await must(201, world.call('post', PATH, { workspaceId, externalMeterId, ...settings }))).body.billing;
}

function get(externalMeterId: string) {
  return world.call('get', `${PATH}?${new URLSearchParams({ workspaceId, externalMeterId }).toString()}`);
}
