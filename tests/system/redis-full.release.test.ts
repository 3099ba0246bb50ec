// A Redis at its memory limit, filled by usage events that nobody reads.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeEvent, EVENT_FIELD } from '../../shared/events/event.ts';
import { readMemory } from '../../shared/events/outbox-watch.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { newId } from '../../shared/values/ids.ts';
import { ALL_SHARDS, SHARDS } from '../../shared/values/key-text.ts';
import { makeCustomers, must } from '../helpers/customers.ts';
import { testEvent } from '../helpers/events.ts';
import { makeOwnRedis, untilOpen } from '../helpers/own-redis.ts';
import { eventually, makeWorld } from '../helpers/world.ts';

const LIMIT = 16 * 1024 * 1024;
// Percent of the limit: Redis refuses more before it has so much in use.
const FULL = 101;

const redis = await makeOwnRedis('full', { maxmemory: LIMIT });
const world = await makeWorld(['verify'], { REDIS_URL: redis.url });
const workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'full' })).body.workspace.id;
const customers = makeCustomers(world, workspaceId);
test.before.each(async () => {
  await eventually('there is memory for a key', async () => (await makeKey()).status === 201);
});
test.after.each(async () => {
  await world.consumer?.stop();
  world.consumer = undefined;
  await redis.admin.del(ALL_SHARDS.map(keyspace.outbox));
  await redis.admin.config('SET', 'maxmemory', LIMIT);
});

test('a key is disabled, deleted, rotated and a token revoked at the limit, also after Redis was started again', async () => {
  const [disabled, deleted, rotated] = await Promise.all([1, 2, 3].map(() => customers.newKey()));
  const token = (await world.call('post', '/api/v1/access-token', { name: 't', permissions: ['key:verify'] })).body
    .accessToken;
  const again = await customers.newKey();
  await fillUp();

  const path = `/api/v1/workspace/${workspaceId}/api-key`;
  await must(200, world.call('patch', `${path}/${disabled!.id}`, { enabled: false }));
  assert.is((await verify(disabled!.key)).body.status, 'DISABLED');
  await redis.end('SIGTERM');
  await redis.start();
  // It takes somewhat less memory than before.
  await redis.admin.config('SET', 'maxmemory', LIMIT / 2);
  await untilOpen(redis, world.api.url, world.verify!.url);
  assert.ok(await isFull(), 'it has no memory left');
  assert.is((await verify(disabled!.key)).body.status, 'DISABLED');
  await must(200, world.call('delete', `${path}/${deleted!.id}`));
  assert.is((await verify(deleted!.key)).body.status, 'DELETED');
  const fresh = (await must(200, world.call('post', `${path}/${rotated!.id}/rotate`))).body.apiKey.key as string;
  // Until verify has seen how full Redis is, it would record an event of it.
  await eventually('the new secret is taken', async () => (await verify(fresh)).body.status === 'VALID');
  await eventually('the old secret is refused', async () => (await verify(rotated!.key)).body.status === 'INVALID');
  await must(200, world.call('delete', `/api/v1/access-token/${token.id}`));
  await eventually('the token is refused', async () => (await verify(again.key, token.token)).status === 401);
});

function verify(key: string, token = world.team.token, headers: Record<string, string> = {}) {
  return customers.verify({ key }, { token, headers });
}

function makeKey() {
  return world.call('post', '/api/v1/api-key', { name: 'k', workspaceId });
}

/**
 * Appends events until Redis refuses them or has so much memory in use, as it counts that for its limit; returns how many. Fewer at
 * a time towards the end.
 */
async function fillUp(percent = FULL): Promise<number> {
  for (let [appended, atOnce] = [0, 1_000]; ;) {
    const { usedBytes } = await readMemory(redis.admin);
    if (usedBytes >= (LIMIT * percent) / 100) return appended;
    const pipeline = redis.admin.pipeline();
    for (let i = 0; i < atOnce; i++) {
      const event = testEvent({ id: newId('evt'), route: 'r'.repeat(100) });
      pipeline.xadd(keyspace.outbox(i % SHARDS), '*', EVENT_FIELD, encodeEvent(event));
    }
    const answers = (await pipeline.exec()) ?? [];
    const refused = answers.filter(([error]) => error).length;
    appended += answers.length - refused;
    if (refused > 0 && atOnce === 1) return appended;
    if (refused > 0) atOnce /= 10;
  }
}

async function isFull(): Promise<boolean> {
  return redis.admin.set('probe', '1').then(
    () => false,
    (error: Error) => error.message.startsWith('OOM'),
  );
}
