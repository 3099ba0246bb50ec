import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { noteTokenUses } from '../../../shared/auth/token-uses.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { makeConsumerWorld } from '../helpers/consumer-world.ts';
import { copyTokenUses } from './token-uses.ts';

const own = await makeConsumerWorld();

test('the newest use counts, in any order of uses; uses that were copied are removed later, and none is lost', async () => {
  const { sql, redis, node, log } = own;
  const id = own.team.tokenId;
  const name = keyspace.tokenUses(0);
  const copied = async () => {
    await copyTokenUses(sql, redis);
    return (await sql<{ at: number }[]>`select last_used_at as at from token_last_used where token_id = ${id}`)[0]?.at;
  };
  const now = Date.now();
  await node.client.zadd(name, now - 1_000_000, id);
  await node.client.zadd(name, now - 1_000_000, 'tok_nobody');
  assert.is(await copied(), now - 1_000_000);

  const uses = noteTokenUses(redis, log);
  uses.note(0, id);
  await uses.stop();
  const noted = Number(await node.client.zscore(name, id));
  assert.ok(noted >= now, 'stopping writes the uses that wait');
  assert.is(await copied(), noted);
  assert.is(await node.client.zscore(name, 'tok_nobody'), null, 'a use that was copied long ago is removed');

  await node.client.zadd(name, now - 5_000, id);
  assert.is(await copied(), noted, 'an older use changes nothing');
});
