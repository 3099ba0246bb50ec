import { makeLogger } from '../../shared/runtime/log.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { connectRedis, type ShardedRedis } from '../../shared/stores/redis.ts';
import { patientClock } from './clock.ts';

// Of the time that a script has.
const TIMES = 1_000;

/** A connection of a test's own, on which no script comes too late where Redis is one server. */
export function connectPatiently(url: string, clock: Clock = patientClock): ShardedRedis {
  const redis = connectRedis(url, makeLogger('test', 'silent'), clock);
  if (url.startsWith('redis+cluster:')) return redis;
  const node = redis.node(0);
  const { notAfter } = node;
  node.notAfter = (withinMs) => notAfter(withinMs * TIMES);
  return redis;
}
