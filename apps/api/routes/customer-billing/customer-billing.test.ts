import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace, meterShard } from '../../../../shared/stores/keyspace.ts';
import { readRecord } from '../../../../shared/stores/records.ts';
import { connectRedis } from '../../../../shared/stores/redis.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { eventually, makeWorld, wireTo, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/customer-billing';
let world: World;
let workspaceId: string;
const test = suite('customer billing');
test.before(async () => {
  world = await makeWorld();
  workspaceId = await newWorkspace();
});
test.after(() => world?.stop());

test('a billing record is created, read by meter and by id, and changed', async () => {
  const externalMeterId = 'meter / 1 ü';
  const made = await world.call('post', PATH, { workspaceId, externalMeterId });
  assert.is(made.status, 201, made.text);
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

  const changed = await world.call('patch', `${PATH}/${billing.id}`, { allowOverages: true, spendCap: '007.50' });
  assert.is(changed.status, 200, changed.text);
  const { updatedAt } = changed.body.billing;
  assert.equal(changed.body.billing, { ...billing, allowOverages: true, spendCap: '7.5', updatedAt });
  const cleared = await world.call('patch', `${PATH}/${billing.id}`, { spendCap: null });
  assert.is(cleared.body.billing.spendCap, undefined);
  assert.is(cleared.body.billing.allowOverages, true, 'what a PATCH does not name stays');
  assert.equal((await get(externalMeterId)).body, cleared.body);
});

test('a new record has the given settings, in canonical form', async () => {
  const body = {
    workspaceId,
    externalMeterId: 'given',
    totalCredits: '0012.340000',
    allowOverages: true,
    spendCap: '0',
  };
  const { billing } = (await world.call('post', PATH, body)).body;
  assert.is(billing.totalCredits, '12.34');
  assert.is(billing.spendCap, '0');
  assert.is(billing.allowOverages, true);
});

test('an alert names a limit by any name that a limit can have', async () => {
  const name = 'n'.repeat(128);
  const limits = [{ name, unit: 'requests', limit: 10, per: 'day' }];
  const alerts = [{ name: 'low', when: { limit: name, usedPercent: 80 } }];
  const made = await world.call('post', PATH, { workspaceId, externalMeterId: 'long names', limits, alerts });
  assert.equal([made.status, made.body.billing?.alerts], [201, alerts], made.text);
});

test('a workspace has one record for each meter, also when several are created at once', async () => {
  const body = { workspaceId, externalMeterId: 'raced' };
  const answers = await Promise.all(Array.from({ length: 8 }, () => world.call('post', PATH, body)));
  assert.is(answers.filter((answer) => answer.status === 201).length, 1);
  assert.is(answers.filter((answer) => answer.body.error?.code === 40902).length, 7);
  const elsewhere = await world.call('post', PATH, { ...body, workspaceId: await newWorkspace() });
  assert.is(elsewhere.status, 201, elsewhere.text);
});

test('bad input is a 400 that names the field', async () => {
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
    const answer = await world.call(method, PATH + path, body);
    assert.is(answer.status, 400, answer.text);
    assert.is(answer.body.error.code, 40001, answer.text);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === field),
      `${field}: ${answer.text}`,
    );
  }
  assert.is((await get('new')).body.error.code, 40404, 'nothing was made');
});

test('no answer tells anything without a token, without the permission, or to another team', async () => {
  const { id } = await newRecord('ours', { totalCredits: '1' });
  const query = `?workspaceId=${workspaceId}&externalMeterId=ours`;
  const ids = { workspaceId, externalMeterId: 'ours' };
  const calls = [
    ['get', query, undefined, 40302],
    ['post', '', { workspaceId, externalMeterId: 'theirs' }, 40302],
    ['post', '/refill', { ...ids, refill: 1 }, 40302],
    ['get', `/${id}`, undefined, 40404],
    ['patch', `/${id}`, { allowOverages: true }, 40404],
    ['get', `/${id}/ledger`, undefined, 40404],
  ] as const;
  const other = await world.newTeam();
  const elsewhere = await world.newToken(world.team.id, ['billing:read', 'billing:write'], [await newWorkspace()]);
  for (const [method, path, body, code] of calls) {
    const needed = method === 'get' ? 'billing:read' : 'billing:write';
    const lesser = await world.newToken(world.team.id, [needed === 'billing:read' ? 'billing:write' : 'billing:read']);
    const answer = async (token: string | null) => (await world.call(method, PATH + path, body, { token })).body.error;
    assert.is((await answer(null)).code, 40101);
    assert.is((await answer(lesser)).code, 40301);
    assert.match((await answer(lesser)).message, needed);
    assert.is((await answer(other.token)).code, code);
    assert.is((await answer(elsewhere)).code, code);
  }
  const limited = await world.newToken(world.team.id, ['billing:read', 'billing:write'], [workspaceId]);
  assert.is((await world.call('get', PATH + query, undefined, { token: limited })).status, 200);
  assert.is((await world.call('get', `${PATH}/${id}/ledger`, undefined, { token: limited })).status, 200);
  assert.is((await get('ours')).body.billing.totalCredits, '1');
});

test('an unknown record is a 404, also under an id of a wrong form', async () => {
  assert.is((await get('none')).body.error.code, 40404);
  const refill = { workspaceId, externalMeterId: 'none', refill: 1 };
  assert.is((await world.call('post', `${PATH}/refill`, refill)).body.error.code, 40404);
  for (const id of ['bill_01h455vb4pex5vsknk084sn02q', 'x', '%00', '..%2f']) {
    assert.is((await world.call('get', `${PATH}/${id}`)).body.error.code, 40404, id);
    assert.is((await world.call('patch', `${PATH}/${id}`, {})).body.error.code, 40404, id);
    assert.is((await world.call('get', `${PATH}/${id}/ledger`)).body.error.code, 40404, id);
  }
  const nowhere = await world.call('post', PATH, { workspaceId: 'a\u0000', externalMeterId: 'm' });
  assert.is(nowhere.body.error.code, 40302);
});

test('usedCredits is what Redis counts, and the snapshot while Redis cannot tell', async () => {
  const { id } = await newRecord('used');
  await world.sql`update billing_records set used_micros = 3000000 where id = ${id}`;
  assert.is((await get('used')).body.billing.usedCredits, '0', 'a record in force without a count has used nothing');

  const redis = connectRedis(world.env.REDIS_URL!, makeLogger('test', 'silent'));
  await redis.connected(60_000);
  const shard = meterShard(workspaceId, 'used');
  await redis.node(shard).client.hset(keyspace.billing(shard, workspaceId, 'used'), 'u', '8999999999999999');
  assert.is((await get('used')).body.billing.usedCredits, '8999999999.999999');
  await redis.node(shard).client.hdel(keyspace.billing(shard, workspaceId, 'used'), 's');
  assert.is(
    (await get('used')).body.billing.usedCredits,
    '3',
    'a record that is not there is not a record without use',
  );
  await eventually('nor is a closed shard', async () => {
    // It is opened again soon, and the record with it.
    await redis.node(shard).client.hset(keyspace.meta(shard), 'owner', 'another');
    return (await get('used')).body.billing.usedCredits === '3';
  });
  await eventually(
    'the shard is open again',
    async () => (await redis.node(shard).client.hget(keyspace.meta(shard), 'owner')) === redis.node(shard).runId(),
  );
  await redis.close();
});

test('while Redis is unavailable, a record answers its snapshot, and no refill is stored', async () => {
  const { id } = await newRecord('away', { totalCredits: '10' });
  await world.sql`update billing_records set used_micros = 4500000 where id = ${id}`;
  const wire = await wireTo(world.env.REDIS_URL!);
  const api = await world.start('api', { REDIS_URL: wire.url });
  await wire.cut();
  const query = new URLSearchParams({ workspaceId, externalMeterId: 'away' }).toString();
  const read = await world.call('get', `${api.url}${PATH}?${query}`);
  assert.is(read.body.billing?.usedCredits, '4.5', read.text);
  const body = { workspaceId, externalMeterId: 'away', refill: 1 };
  const headers = { 'Idempotency-Key': 'while-away' };
  const refused = await world.call('post', `${api.url}${PATH}/refill`, body, { headers });
  assert.equal([refused.status, refused.body.error.code], [503, 50301]);
  assert.equal((await world.call('get', `${PATH}/${id}/ledger`)).body, { ledger: [] });
  const repeated = await world.call('post', `${PATH}/refill`, body, { headers });
  assert.is(repeated.body.billing.totalCredits, '11', 'the refusal was not kept: repeating it does it');
});

test('settings and refills are in force with the answer', async () => {
  const { id } = await newRecord('forced', { totalCredits: '1' });
  await world.call('post', `${PATH}/refill`, { workspaceId, externalMeterId: 'forced', refill: 1.5 });
  const redis = connectRedis(world.env.REDIS_URL!, makeLogger('test', 'silent'));
  await redis.connected(60_000);
  const shard = meterShard(workspaceId, 'forced');
  const record = await redis.node(shard).client.hget(keyspace.billing(shard, workspaceId, 'forced'), 's');
  const { limitMicros, answerPart } = readRecord('billing', record!);
  assert.is(limitMicros, '2500000');
  const { billing } = (await world.call('get', `${PATH}/${id}`)).body;
  const { usedCredits: _, availableCredits: __, heldCredits: ___, expiredCredits: ____, ...settings } = billing;
  assert.equal(JSON.parse(`{${answerPart}}`), settings, 'verify answers the same record');
  await redis.close();
});

test.run();

async function newWorkspace(): Promise<string> {
  return (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id;
}

async function newRecord(externalMeterId: string, settings: Record<string, unknown> = {}) {
  const answer = await world.call('post', PATH, { workspaceId, externalMeterId, ...settings });
  assert.is(answer.status, 201, answer.text);
  return answer.body.billing;
}

function get(externalMeterId: string) {
  return world.call('get', `${PATH}?${new URLSearchParams({ workspaceId, externalMeterId }).toString()}`);
}
