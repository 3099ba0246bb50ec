import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { memoryIn } from '../../shared/events/outbox-watch.ts';
import { errors } from '../../shared/contract/errors.ts';
import { makeOwnRedis } from '../helpers/own-redis.ts';
import { makeCustomers, makeWorld, must, once } from '../helpers/world.ts';

// Of its memory 55 percent are in use, where metered calls go on until 60 and new records are made until 50.
const settings = { OUTBOX_MAX_MEMORY_PERCENT: '60' };
const USED = 0.55;

const redis = await makeOwnRedis('short');
const world = await makeWorld(['verify'], { REDIS_URL: redis.url, ...settings });
const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'full' }))).body.workspace.id;
const customers = makeCustomers(world, workspaceId);

test('nothing new is made or held, while changes, deletions and debits go on and open holds end; then nothing metered goes on', async () => {
  const one = await customers.meteredKey('10');
  const holdId = await customers.hold(one, '2');
  // A value of that length would be in use twice for a moment: as it is read, and as it is kept.
  await redis.admin.setrange('much', 32 * 1024 * 1024, 'x');
  const { usedBytes } = memoryIn(await redis.admin.info('memory'));
  await redis.admin.config('SET', 'maxmemory', Math.round(usedBytes / USED));
  // They look as soon as they are connected.
  const [api, verify] = [await world.start('api'), await world.start('verify')];

  const key = { name: 'k', workspaceId };
  const hold = { key: one.key, billing: { usage: '1', hold: { expiresIn: 600 } } };
  for (const refused of [
    await world.call('post', `${api.url}/api/v1/api-key`, key, { headers: once() }),
    await customers.verify(hold, { url: verify.url }),
  ])
    assert.equal([refused.status, refused.body.error?.code], [503, errors.memory_short[0]], refused.text);
  const debit = { key: one.key, billing: { usage: '3' } };
  assert.is((await customers.verify(debit, { url: verify.url })).body.billing.usedCredits, '3');
  const capture = (url: string) => world.call('post', `${url}/api/v1/usage/capture`, { holdId, usage: '1' });
  const { url } = await world.start('verify', { OUTBOX_MAX_MEMORY_PERCENT: '50' });
  for (const refused of [await customers.verify(debit, { url }), await capture(url)])
    assert.is(refused.body.error?.code, errors.outbox_full[0]);
  await must(200, capture(verify.url));
  assert.is((await customers.billing(one.meter)).usedCredits, '4');
  const path = `${api.url}/api/v1/workspace/${workspaceId}/api-key/${one.id}`;
  await must(200, world.call('patch', path, { enabled: false }));
  assert.is((await customers.verify({ key: one.key })).body.status, 'DISABLED');
  await must(200, world.call('delete', path));
});
