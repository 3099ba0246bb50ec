import { makeLogger } from '../../shared/runtime/log.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { connectRedis, type ShardedRedis } from '../../shared/stores/redis.ts';
import { patientClock } from './clock.ts';

/** A connection of a test's own, on which no script comes too late where Redis is one server. */
export function connectPatiently(url: string, clock: Clock = patientClock): ShardedRedis {
  const redis = connectRedis(url, makeLogger('test', 'silent'), clock);
  if (!url.startsWith('redis+cluster:')) redis.node(0).notAfter = () => Number.MAX_SAFE_INTEGER;
  return redis;
}
