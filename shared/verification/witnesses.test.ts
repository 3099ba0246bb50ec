// What a verify process remembers, and reports when a Redis has lost it.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../runtime/clock.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { makeLogger } from '../runtime/log.ts';
import { keyspace } from '../stores/keyspace.ts';
import { connectRedis, type ShardedRedis } from '../stores/redis.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { keepWitnesses, type Witnesses } from './witnesses.ts';

const RECORDS = 20_000;
// Of the event loop's thread, in a turn. Garbage collection takes its share.
const MAX_TURN_MS = 25;
const TRIES = 5;

let world: World;
let redis: ShardedRedis;
let witnesses: Witnesses;
const test = suite('witnesses');
test.before(async () => {
  world = await makeWorld();
  const log = makeLogger('test', 'silent');
  redis = connectRedis(world.env.REDIS_URL!, log, systemClock);
  await redis.connected(30_000);
  witnesses = keepWitnesses(redis, log);
});
test.after(async () => {
  await witnesses?.stop();
  await redis?.close();
  await world?.stop();
});

test('20,000 remembered balances are reported after a reopening, and no turn of the event loop takes long over it', async () => {
  const { client } = redis.node(0);
  const entries = async () => {
    const lengths = await Promise.all(ALL_SHARDS.map((shard) => client.xlen(keyspace.outbox(shard))));
    return lengths.reduce((sum, one) => sum + one, 0);
  };
  let [epoch, longest] = [1, Infinity];
  // On a busy machine a turn may take longer now and then.
  for (let tries = 0; tries < TRIES && longest >= MAX_TURN_MS; tries++) {
    const before = await entries();
    for (let i = 0; i < RECORDS; i++)
      witnesses.remember(`bill_${i}`, { shard: i % 64, keyHash: `hash-${i}`, epoch, sequence: 1, usedMicros: 1 });
    const turns = watchTurns();
    // The fence stays as it is: the shards are open, in a later epoch.
    epoch += 1_000;
    for (const shard of ALL_SHARDS) await client.hset(keyspace.meta(shard), 'epoch', epoch);
    await eventually('all are reported', async () => (await entries()) === before + RECORDS);
    longest = turns.stop();
  }
  assert.ok(longest < MAX_TURN_MS, `a turn of the event loop took ${longest.toFixed(1)} ms`);

  // An answer of then that comes late is reported too.
  const before = await entries();
  witnesses.remember('bill_late', { shard: 7, keyHash: 'hash', epoch: 999, sequence: 2, usedMicros: 2 });
  await eventually('the late one is reported', async () => (await entries()) === before + 1);
});

test.run();

/** Measures the longest turn of the event loop, in ms that its thread computed: what else runs on the machine counts not. */
function watchTurns() {
  let longest = 0;
  let last = process.threadCpuUsage();
  let stopped = false;
  const turn = () => {
    const { user, system } = process.threadCpuUsage(last);
    longest = Math.max(longest, (user + system) / 1_000);
    last = process.threadCpuUsage();
    if (!stopped) setImmediate(turn);
  };
  setImmediate(turn);
  return {
    stop() {
      stopped = true;
      return longest;
    },
  };
}
