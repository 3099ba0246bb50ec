import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../shared/contract/errors.ts';
import { makeCustomers, must, newWorkspace } from '../helpers/customers.ts';
import { makeOwnRedis, untilOpen, untilWritten } from '../helpers/own-redis.ts';
import { eventually, makeWorld } from '../helpers/world.ts';

// What happens to verification when its Redis is killed, or emptied under it. reopening.test.ts has what an emptied one gets back.

const redis = await makeOwnRedis('fence');
const world = await makeWorld(['verify', 'consumer'], { REDIS_URL: redis.url });
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);
const allOpen = () => untilOpen(redis, world.api.url, world.verify!.url);

test('while its Redis is dead or its shards are closed verify answers 503, and the api stores no change; then all is there as before', async () => {
  await allOpen();
  const one = await customers.meteredKey('10');
  await customers.spend(one, '1.5');
  const holdId = await customers.hold(one, '3');
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

  await world.booked();
  await redis.admin.flushall();
  await untilValid(one.key);
  await allOpen();
  const { usedCredits, heldCredits } = await customers.billing(one.meter);
  assert.equal([usedCredits, heldCredits], ['2.5', '3']);
  await must(200, world.call('post', `${world.verify!.url}/api/v1/usage/capture`, { holdId, usage: '4' }));
  await eventually('usage', async () => (await customers.usage(one.meter)) === '6.5');
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
