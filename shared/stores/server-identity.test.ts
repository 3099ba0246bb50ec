import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../runtime/clock.ts';
import { makeOwnRedis } from '../../tests/helpers/own-redis.ts';
import { makeServerClock } from './server-clock.ts';
import { makeServerIdentity } from './server-identity.ts';

const own = await makeOwnRedis('identity');

test('a primary of a cluster that was demoted and promoted again is another server, though it was not started again', async () => {
  const learned = async (inCluster: boolean) => {
    const identity = makeServerIdentity(own.admin, makeServerClock(own.admin, systemClock), systemClock, inCluster);
    await identity.learn();
    return identity.runId();
  };
  const [alone, before] = [await learned(false), await learned(true)];
  await own.admin.replicaof('127.0.0.1', 1);
  await own.admin.replicaof('NO', 'ONE');
  assert.is(await learned(false), alone);
  assert.is.not(await learned(true), before);
});
