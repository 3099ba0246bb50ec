import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../tests/helpers/eventually.ts';
import { makeOwnRedis } from '../../tests/helpers/own-redis.ts';
import type { ApiError } from '../contract/errors.ts';
import { systemClock } from '../runtime/clock.ts';
import { makeLogger } from '../runtime/log.ts';
import { connectNode, nodeOf } from './redis-node.ts';

test('a Redis that refuses the password, or speaks no TLS where it is wanted, is unavailable, and the log says why', async () => {
  const { url, admin } = await makeOwnRedis('refusing');
  await admin.config('SET', 'requirepass', 'the right one');
  for (const [address, why] of [
    [url, 'NOAUTH'],
    [url.replace('//', '//:a-wrong-one@'), 'WRONGPASS'],
    [url.replace('redis:', 'rediss:'), 'the address asks for TLS: does its port speak it?'],
  ] as const) {
    const told: string[] = [];
    const log = makeLogger('test', 'warn', { write: (line) => void told.push(line) });
    const node = connectNode(address, log, systemClock);
    await eventually(why, async () => told.some((line) => line.includes(why)));
    assert.throws(
      () => node.runId(),
      (error: ApiError) => error.errorName === 'redis_unavailable',
    );
    for (const line of told) assert.not.match(line, 'a-wrong-one');
    node.client.disconnect();
  }
});

test('a primary of a cluster that was demoted and promoted again is another server, though it was not started again', async () => {
  const { admin } = await makeOwnRedis('identity');
  const learned = async (inCluster: boolean) => {
    const node = nodeOf(admin, makeLogger('test', 'silent'), systemClock, { inCluster });
    await node.refresh();
    return node.runId();
  };
  const [alone, before] = [await learned(false), await learned(true)];
  await admin.replicaof('127.0.0.1', 1);
  await admin.replicaof('NO', 'ONE');
  assert.is(await learned(false), alone);
  assert.is.not(await learned(true), before);
});
