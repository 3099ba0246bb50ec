import { ApiError } from './errors.ts';
import { SHARDS } from './key-text.ts';
import { keyspace } from './keyspace.ts';
import type { RedisLink } from './redis.ts';
import { within } from './within.ts';

// A shard is open while its owner is the server we speak to: a server that restarted, was emptied or replaced has
// another run id, or no owner, until the api has brought the shard up to date and opened it.

/** The shards that are closed, of those given or of all. */
export async function closedShards(link: RedisLink, withinMs: number, shards = allShards()): Promise<number[]> {
  const runId = link.runId();
  const pipeline = link.client.pipeline();
  for (const shard of shards) pipeline.hget(keyspace.meta(shard), 'owner');
  const answers = await within(withinMs, pipeline.exec()).catch((error: unknown) => {
    throw new ApiError('redis_away', { cause: error });
  });
  return shards.filter((_, i) => answers?.[i]?.[1] !== runId);
}

/** Throws 503 unless every one of the shards is open: what is stored then can come into force. */
export async function requireOpen(link: RedisLink, withinMs: number, shards?: number[]): Promise<void> {
  const closed = await closedShards(link, withinMs, shards);
  if (closed.length > 0) throw new ApiError('redis_away', { cause: new Error(`closed shards: ${closed.join(' ')}`) });
}

function allShards(): number[] {
  return Array.from({ length: SHARDS }, (_, shard) => shard);
}
