import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../shared/contract/errors.ts';
import { makeCustomers, must, newWorkspace } from '../helpers/customers.ts';
import { makeOwnRedis, untilOpen, untilWritten } from '../helpers/own-redis.ts';
import { eventually, makeWorld, once } from '../helpers/world.ts';

// What happens to verification when its Redis restarts or is emptied. This file has a Redis of its own for that.

const redis = await makeOwnRedis('fence');
const world = await makeWorld(['verify', 'consumer'], { REDIS_URL: redis.url });
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);
const allOpen = () => untilOpen(redis, world.api.url, world.verify!.url);
test.before.each(allOpen);

test('while its Redis is dead or its shards are closed verify answers 503, and the api stores no change; then all is there as before', async () => {
  const one = await customers.meteredKey('10');
  await customers.spend(one, '1.5');
  const path = `/api/v1/workspace/${workspaceId}/api-key/${one.id}`;
  await untilWritten(redis.admin);
  await redis.end('SIGKILL');
  assert.is((await customers.verify({ key: one.key })).status, 503);
  const refused = await world.call('patch', path, { name: 'changed' });
  assert.equal([refused.status, refused.body.error.code], [503, errors.redis_unavailable[0]]);
  assert.is((await must(200, world.call('get', path))).body.apiKey.name, 'k', 'reads go on, and it stored nothing');

  await redis.start();
  await untilValid(one.key);
  assert.is((await customers.spend(one, '1')).billing.usedCredits, '2.5');
  await allOpen();
  await must(200, world.call('patch', path, { name: 'changed' }));
});

test('an emptied Redis gets settings, balances, holds and limits back from Postgres and the books, and is closed until then', async () => {
  const limits = [{ name: 'monthly', unit: 'credits', limit: '100', per: 'month' }];
  const meter = await customers.newMeter({ totalCredits: '50', limits });
  const one = { ...(await customers.newKey({ externalMeterId: meter })), meter };
  const disabled = await customers.newKey({ enabled: false });
  await customers.spend(one, '3.25');
  const record = `/api/v1/customer-billing/${(await customers.billing(meter)).id}`;
  const adjustment = { amount: '0.5', reason: 'a test' };
  await must(201, world.call('post', `${record}/adjustment`, adjustment, { headers: once() }));
  const holdId = await customers.hold(one, '10');
  await world.booked();
  await redis.admin.flushall();
  await untilValid(one.key);
  await allOpen();

  const { usedCredits, heldCredits } = await customers.billing(meter);
  assert.equal([usedCredits, heldCredits], ['3.75', '10']);
  const capture = { holdId, usage: '4' };
  await must(200, world.call('post', `${world.verify!.url}/api/v1/usage/capture`, capture));
  const spent = await customers.spend(one, '42.25');
  assert.equal([spent.billing.usedCredits, spent.limits[0].remaining], ['50', '50.5']);
  const over = { key: one.key, billing: { usage: '0.000001' } };
  assert.is((await customers.verify(over, { headers: once() })).body.status, 'USAGE_LIMITED');
  assert.is((await customers.verify({ key: disabled.key })).body.status, 'DISABLED');
  await world.booked();
  const found = await eventually('nothing is on its way', async () => {
    const { reconciliation } = (await must(200, world.call('get', `${record}/reconciliation`))).body;
    return reconciliation.status === 'ON_ITS_WAY' ? undefined : reconciliation;
  });
  assert.equal([found.status, found.difference, found.gaps, found.lastBalance], ['EXACT', '0', [], '50']);
  await eventually('usage', async () => (await customers.usage(meter)) === '50');
});

/** Waits until a key is VALID again; until then it is undecided, and never refused. */
function untilValid(key: string): Promise<unknown> {
  return eventually('verified again', async () => {
    const answer = await customers.verify({ key });
    if (answer.status === 503) return false;
    assert.is(answer.body.status, 'VALID', answer.text);
    return true;
  });
}
