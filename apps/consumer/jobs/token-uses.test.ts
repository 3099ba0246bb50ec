import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import { noteTokenUses } from '../../../shared/auth/token-uses.ts';
import { eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { copyTokenUses } from './token-uses.ts';

let world: World;
let redis: ShardedRedis;
const log = makeLogger('test', 'silent');
const test = suite('last use of access tokens');
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  redis = connectRedis(world.env.REDIS_URL!, log, systemClock);
  await redis.connected(60_000);
});
test.after(async () => {
  await Promise.all([redis?.close(), world?.stop()]);
});

test('the list of access tokens shows when each was last used, on verify as on the api', async () => {
  const gateway = await newToken(['key:verify']);
  const reader = await newToken(['workspace:read']);
  const unused = await newToken(['key:read']);
  const before = Date.now();
  await must(200, world.call('post', world.verify!.url + VERIFY_PATH, { key: 'k' }, { token: gateway.token }));
  await must(200, world.call('get', '/api/v1/workspace', undefined, { token: reader.token }));
  await must(200, world.call('get', '/api/v1/workspace', undefined, { token: reader.token }));
  for (const { id } of [gateway, reader]) {
    const { lastUsedAt } = await eventually(
      'its use is listed',
      async () => (await listed(id)).lastUsedAt && listed(id),
    );
    assert.ok(Date.parse(lastUsedAt) >= before && Date.parse(lastUsedAt) <= Date.now(), lastUsedAt);
  }
  assert.not.ok('lastUsedAt' in (await listed(unused.id)));
});

test('the newest use counts, in any order of uses; uses that were copied are removed later, and none is lost', async () => {
  const { id } = await newToken(['key:read']);
  const [row] = await world.sql<[{ shard: number }]>`select shard from access_tokens where id = ${id}`;
  const name = keyspace.tokenUses(row.shard);
  const client = redis.node(row.shard).client;
  const lastUsed = async () => {
    const [found] = await world.sql<
      { at: number }[]
    >`select last_used_at as at from token_last_used where token_id = ${id}`;
    return found?.at;
  };
  const now = Date.now();
  await client.zadd(name, now - 1_000_000, id);
  await client.zadd(name, now - 1_000_000, 'tok_nobody');
  await copyTokenUses(world.sql, redis);
  assert.is(await lastUsed(), now - 1_000_000);

  const uses = noteTokenUses(redis, log);
  uses.note(row.shard, id);
  await uses.stop();
  const noted = Number(await client.zscore(name, id));
  assert.ok(noted >= now, 'stopping writes the uses that wait');
  await copyTokenUses(world.sql, redis);
  assert.is(await lastUsed(), noted);
  assert.is(await client.zscore(name, 'tok_nobody'), null, 'a use that was copied long ago is removed');

  await client.zadd(name, now - 5_000, id);
  await copyTokenUses(world.sql, redis);
  assert.is(await lastUsed(), noted, 'an older use changes nothing');
});

test.run();

async function newToken(permissions: string[]): Promise<{ id: string; token: string }> {
  return (await must(201, world.call('post', '/api/v1/access-token', { name: 'n', permissions }))).body.accessToken;
}

async function listed(id: string) {
  const { accessTokens } = (await must(200, world.call('get', '/api/v1/access-token'))).body;
  return accessTokens.find((one: { id: string }) => one.id === id);
}
