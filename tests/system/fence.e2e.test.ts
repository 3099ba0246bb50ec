import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../shared/contract/errors.ts';
import { must } from '../helpers/customers.ts';
import { untilWritten } from '../helpers/own-redis.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';
import { eventually, once } from '../helpers/world.ts';

// What happens to verification when its Redis restarts or is emptied. This file has a Redis of its own for that.

let own: RebuildWorld;

test.before(async () => {
  own = await makeRebuildWorld('fence');
  await own.world.start('consumer');
});
test.before.each(() => own.allOpen());

test('while its Redis is dead or its shards are closed verify answers 503, and the api stores no change; then all is there as before', async () => {
  const { world, redis, customers } = own;
  const one = await customers.meteredKey('10');
  await own.spend(one, '1.5');
  const path = `/api/v1/workspace/${own.workspaceId}/api-key/${one.id}`;
  await untilWritten(redis.admin);
  await redis.end('SIGKILL');
  assert.is((await customers.verify({ key: one.key })).status, 503);
  const refused = await world.call('patch', path, { name: 'changed' });
  assert.equal([refused.status, refused.body.error.code], [503, errors.redis_unavailable[0]]);
  assert.is((await must(200, world.call('get', path))).body.apiKey.name, 'k', 'reads go on, and it stored nothing');

  await redis.start();
  await own.untilValid(one);
  assert.is(await own.used(one), '1.5');
  assert.is((await own.spend(one, '1')).billing.usedCredits, '2.5');
  await own.allOpen();
  await must(200, world.call('patch', path, { name: 'changed' }));
});

test('an emptied Redis gets settings, balances, holds and limits back from Postgres and the books, and is closed until then', async () => {
  const { world, redis, customers } = own;
  const limits = [{ name: 'monthly', unit: 'credits', limit: '100', per: 'month' }];
  const meter = await customers.newMeter({ totalCredits: '50', limits });
  const one = { ...(await customers.newKey({ externalMeterId: meter })), meter };
  const disabled = await customers.newKey({ enabled: false });
  await own.spend(one, '3.25');
  await own.adjust(one, '0.5');
  const holdId = await customers.hold(one, '10');
  await world.booked();
  await redis.admin.flushall();
  await own.untilValid(one);
  await own.allOpen();

  const { usedCredits, heldCredits } = await customers.billing(meter);
  assert.equal([usedCredits, heldCredits], ['3.75', '10']);
  const capture = { holdId, usage: '4' };
  await must(200, world.call('post', `${world.verify!.url}/api/v1/usage/capture`, capture));
  const spent = await own.spend(one, '42.25');
  assert.equal([spent.billing.usedCredits, spent.limits[0].remaining], ['50', '50.5']);
  const over = { key: one.key, billing: { usage: '0.000001' } };
  assert.is((await customers.verify(over, { headers: once() })).body.status, 'USAGE_LIMITED');
  assert.is((await customers.verify({ key: disabled.key })).body.status, 'DISABLED');
  await world.booked();
  await own.isExact(one);
  await eventually('usage', async () => (await customers.usage(meter)) === '50');
});
