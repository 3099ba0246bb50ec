import { makeLibrary, scriptText, useLibrary } from '../../shared/stores/scripts.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { byClock, setClock } from '../accounts/test-shard.ts';
import { connectTestRedis } from './world.ts';

/** An instant to begin at. It is to come, so that nothing that a script gives an end is over by Redis's own clock. */
export const BEGIN_MS = Date.UTC(2033, 4, 18);

export type ClockedRedis = { redis: ShardedRedis; setNow(ms: number): Promise<void>; empty(): Promise<void> };

/**
 * A connection to the database of this test file on the run's Redis, where the scripts of the product run by a clock that the test
 * sets. No script comes too late there.
 */
export async function connectClockedRedis(): Promise<ClockedRedis> {
  const redis = await connectTestRedis();
  const node = redis.node(0);
  const { client } = node;
  useLibrary(
    client,
    makeLibrary((name) => byClock(scriptText(name))),
  );
  let nowMs = BEGIN_MS;
  node.notAfter = () => Number.MAX_SAFE_INTEGER;
  node.now = async () => nowMs;
  const setNow = (ms: number) => setClock(client, (nowMs = ms));
  const empty = async () => {
    await client.flushdb();
    await setNow(BEGIN_MS);
  };
  await empty();
  return { redis, setNow, empty };
}
