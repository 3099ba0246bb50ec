import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CANCEL_PATH, VERIFY_BATCH_PATH } from '../../../shared/verification/operation.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { request, totalOf } from '../../../tests/helpers/world.ts';
import { callsOf, must, type Answer, joinWorkspace } from '../../api/tests/helpers/calls.ts';

// A verification is cancelled by its Idempotency-Key, on the verify server and on the api. tests/accounts has its arithmetic.

const { world, workspaceId, customers } = await joinWorkspace();
const { read } = callsOf(world);
const servers = () => [world.verify.url, world.api.url];
test.before(async () => {
  // Within a minute of its opening a shard does not say that a call never came: an earlier epoch may have had it.
  for (const shard of ALL_SHARDS) await world.redis.node(shard).client.hset(keyspace.meta(shard), 'openedAt', 1);
});

type Options = { url?: string; token?: string };
let named = 0;
const newName = () => `call-${++named}-${Math.random()}`;

function call(key: string, name: string, billing: object = { usage: '2.5' }): Promise<Answer> {
  return customers.verify({ key, billing }, { headers: { 'Idempotency-Key': name } });
}
function cancel(key: string, idempotencyKey: string, asked: Options = {}) {
  const { url = world.verify.url, token = world.team.token } = asked;
  return request(url + CANCEL_PATH, 'post', { token, body: { key, idempotencyKey } });
}
const said = async (answer: Promise<Answer>) => {
  const { body } = await answer;
  return body.error?.code ?? body.cancellation?.credits ?? body.status;
};
// They may lie on two days, and differ by nothing else.
const inAll = (rows: { totalBillingUsage: string; events: number }[]) => [
  totalOf(rows),
  rows.reduce((sum, { events }) => sum + events, 0),
  new Set(rows.map((row) => JSON.stringify({ ...row, start: '', day: '', totalBillingUsage: '', events: 0 }))).size,
];
const used = async (meter: string) => (await customers.billing(meter)).usedCredits;

test('what a verification debited is given back once, on both servers, and the call is refused from then on', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('10');
    const [name, other] = [newName(), newName()];
    assert.equal([await said(call(key, name)), await said(call(key, other))], ['VALID', 'VALID']);
    assert.is(await used(meter), '5');
    const answers = await Promise.all([1, 2, 3].map(() => said(cancel(key, name, { url }))));
    assert.equal(answers, ['2.5', '2.5', '2.5']);
    assert.equal([await said(call(key, name)), await used(meter)], [40952, '2.5']);
    await world.booked();
    const { id } = await customers.billing(meter);
    assert.equal(inAll(await read(`/api/v1/usage?workspaceId=${workspaceId}&billingId=${id}`)), ['2.5', 2, 1]);
    assert.is((await read(`/api/v1/customer-billing/${id}/reconciliation`)).status, 'EXACT');
  }
});

test('a call that has not come is refused when it comes, and costs nothing; one that was refused has nothing to give back', async () => {
  for (const url of servers()) {
    const { key, meter } = await customers.meteredKey('2');
    const [early, refused] = [newName(), newName()];
    assert.is(await said(cancel(key, early, { url })), 40451);
    assert.is(await said(call(key, early, { usage: '1' })), 40952);
    assert.is(await said(cancel(key, early, { url })), 40451);
    assert.is(await said(call(key, refused)), 'USAGE_LIMITED');
    assert.equal([await said(cancel(key, refused, { url })), await used(meter)], [40451, '0']);
  }
  assert.is(await said(cancel('not a key', newName())), 40451);
});

test('a cancelled call counts for no limit, also of a key without a meter; what was held and is captured stays', async () => {
  const limits = [{ name: 'hourly', unit: 'requests', limit: 1, per: 'hour' }];
  const { id, key } = await customers.newKey({ limits });
  const name = newName();
  assert.equal([await said(call(key, name)), await said(call(key, newName()))], ['VALID', 'RATE_LIMITED']);
  assert.equal([await said(cancel(key, name)), await said(call(key, newName()))], ['2.5', 'VALID']);
  await world.booked();
  const data = await read(`/api/v1/usage?workspaceId=${workspaceId}&groupBy=key`);
  assert.equal(inAll(data.filter(({ apiKeyId }: { apiKeyId: string }) => apiKeyId === id)), ['2.5', 2, 1]);

  const metered = await customers.meteredKey('10');
  const holding = { usage: '3', hold: { expiresIn: 60 } };
  for (const captured of [false, true]) {
    const name = newName();
    const { hold } = (await must(200, call(metered.key, name, holding))).body;
    if (captured) await must(200, world.call('post', '/api/v1/usage/capture', { holdId: hold.id, usage: '1' }));
    assert.is(await said(cancel(metered.key, name)), captured ? 40953 : '3');
  }
  assert.is(await used(metered.meter), '1');
});

test('a deleted key is cancelled for, another access token is not, and a name in a batch is one too', async () => {
  const { key, id, meter } = await customers.meteredKey('10');
  const [name, batched] = [newName(), newName()];
  await must(200, call(key, name));
  const verifications = [{ key, billing: { usage: '1' }, idempotencyKey: batched }];
  await must(200, world.call('post', world.verify.url + VERIFY_BATCH_PATH, { verifications }));
  const others = [await world.newToken(world.team.id, ['key:verify']), (await world.newTeam()).token];
  for (const token of others) assert.is(await said(cancel(key, name, { token })), 40451);
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${id}`));
  assert.equal([await said(cancel(key, name)), await said(cancel(key, batched)), await used(meter)], ['2.5', '1', '0']);
});
