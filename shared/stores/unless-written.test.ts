import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeOwnRedis } from '../../tests/helpers/own-redis.ts';
import { systemClock } from '../runtime/clock.ts';
import { makeLogger } from '../runtime/log.ts';
import { connectNode } from './redis-node.ts';
import { SLOW_LOOK_MS, unlessWritten } from './unless-written.ts';

const WITHIN_MS = 10_000;

test('what was read of a server is given again until somebody writes to it, or some seconds have passed', async () => {
  const { url, admin } = await makeOwnRedis('written');
  let atMs = 0;
  const clock = { ...systemClock, monotonic: () => atMs };
  const node = connectNode(url, makeLogger('test', 'silent'), clock);
  await node.connected(WITHIN_MS);
  let reads = 0;
  const read = unlessWritten(
    async ({ client }) => ((reads += 1), client.get('one')),
    (value) => value !== 'half',
  );
  const seen = async (shards = [1, 2]) => `${(await read(node, shards, WITHIN_MS)).read} ${reads}`;
  assert.equal([await seen(), await seen()], ['null 1', 'null 1']);
  await admin.set('one', 'written');
  assert.equal([await seen(), await seen()], ['written 2', 'written 2']);
  await admin.eval(`return redis.call('SET', KEYS[1], 'by a script')`, 1, 'one');
  assert.equal([await seen(), await seen()], ['by a script 3', 'by a script 3']);
  assert.is(await seen([1]), 'by a script 4');
  atMs += SLOW_LOOK_MS - 1;
  assert.is(await seen([1]), 'by a script 4');
  atMs += 1;
  assert.is(await seen([1]), 'by a script 5');
  await admin.set('one', 'half');
  assert.equal([await seen(), await seen()], ['half 6', 'half 7']);
  node.client.disconnect();
});
