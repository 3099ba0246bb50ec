import { systemClock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectRedis, type ShardedRedis } from '../../shared/stores/redis.ts';
import type { World } from './world.ts';

/** A connection to the Redis of a world, also of one that is shared. */
export async function connectRedisOf({ env }: World): Promise<ShardedRedis> {
  const redis = connectRedis(env.REDIS_URL!, makeLogger('test', 'error'), systemClock);
  await redis.connected(60_000);
  return redis;
}
