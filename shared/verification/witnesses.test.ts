// What a verify process remembers, and reports when a Redis has lost it.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../runtime/clock.ts';
import { connectTestRedis } from '../../tests/helpers/world.ts';
import { makeLogger } from '../runtime/log.ts';
import { keyspace } from '../stores/keyspace.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { keepWitnesses } from './witnesses.ts';

const RECORDS = 2_500;
const redis = await connectTestRedis();

test('remembered balances are reported after a reopening, each once, and so is an answer of then that comes late', async () => {
  const { client, runId } = redis.node(0);
  await client.flushdb();
  for (const shard of ALL_SHARDS) await client.hset(keyspace.meta(shard), { owner: runId(), epoch: 2 });
  const reported = async () => {
    const lengths = await Promise.all(ALL_SHARDS.map((shard) => client.xlen(keyspace.outbox(shard))));
    return lengths.reduce((sum, one) => sum + one, 0);
  };
  let paused = Promise.withResolvers<() => void>();
  const sleep = (_ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve) => {
      signal?.addEventListener('abort', () => resolve());
      paused.resolve(resolve);
    });
  const witnesses = keepWitnesses({ ...redis, clock: { ...systemClock, sleep } }, makeLogger('test', 'silent'));
  const seen = { epoch: 1, sequence: 1, usedMicros: 1 };
  for (let i = 0; i < RECORDS; i++)
    witnesses.remember(`bill_${i}`, { ...seen, shard: i % ALL_SHARDS.length, keyHash: `hash-${i}` });
  const goOn = await paused.promise;
  assert.is(await reported(), RECORDS);
  paused = Promise.withResolvers();
  witnesses.remember('bill_late', { ...seen, shard: 7, keyHash: 'hash' });
  goOn();
  await paused.promise;
  assert.is(await reported(), RECORDS + 1);
  await witnesses.stop();
});
