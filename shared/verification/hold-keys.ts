import { ApiError } from '../contract/errors.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { ShardedRedis } from '../stores/redis.ts';

/** The keys that MACs of holds are made with, the current one first. The api writes them into each open shard. */
export type HoldKeys = ReturnType<typeof makeHoldKeys>;

const KEPT_MS = 10_000;
const READ_AGAIN_AFTER_MS = 1_000;
const ASK_EVERY_MS = 20;

/** Reads the keys from Redis, and keeps them: all shards have the same. */
export function makeHoldKeys(redis: ShardedRedis, withinMs: number) {
  let kept: readonly Buffer[] = [];
  let readAt = -Infinity;

  /** A shard that was opened just now gets them a moment later. */
  async function read(shard: number): Promise<readonly Buffer[]> {
    const { clock } = redis;
    const until = clock.monotonic() + withinMs;
    let text = await ask(shard, withinMs);
    while (!text && clock.monotonic() + ASK_EVERY_MS < until) {
      await clock.sleep(ASK_EVERY_MS);
      text = await ask(shard, until - clock.monotonic());
    }
    if (!text) throw new ApiError('redis_unavailable', { cause: new Error(`shard ${shard} has no keys of holds yet`) });
    [kept, readAt] = [text.split(' ').map((one) => Buffer.from(one, 'base64url')), clock.monotonic()];
    return kept;
  }

  function ask(shard: number, restMs: number): Promise<string | null> {
    const asked = redis.node(shard).client.hget(keyspace.meta(shard), 'holdKeys');
    return withTimeout(redis.clock, restMs, asked).catch((cause: unknown) => {
      throw new ApiError('redis_unavailable', { cause });
    });
  }

  return {
    /** The keys, from a shard that is surely asked of anyway. `again`: those that are kept made no such MAC, and may have been changed since. */
    get: async (shard: number, again?: 'again'): Promise<readonly Buffer[]> =>
      redis.clock.monotonic() - readAt < (again ? READ_AGAIN_AFTER_MS : KEPT_MS) ? kept : read(shard),
  };
}

/** The text of the keys in Redis. */
export function packHoldKeys(keys: readonly Buffer[]): string {
  return keys.map((key) => key.toString('base64url')).join(' ');
}
