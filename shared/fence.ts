import { ApiError } from './errors.ts';
import { ALL_SHARDS } from './key-text.ts';
import { keyspace } from './keyspace.ts';
import type { RedisLink } from './redis.ts';
import { within } from './within.ts';

// A shard is open while its owner is the server we speak to: a server that restarted, was emptied or replaced has
// another run id, or no owner, until the api has brought the shard up to date and opened it.

/** The shards, of those given or of all, that are open for sure: a server that does not answer has none. */
export async function openShards(link: RedisLink, withinMs: number, shards = ALL_SHARDS): Promise<Set<number>> {
  const ofNodes = [...link.byNode(shards)].map(async ([node, held]) => {
    const runId = node.runId();
    const pipeline = node.client.pipeline();
    for (const shard of held) pipeline.hget(keyspace.meta(shard), 'owner');
    const answers = await within(withinMs, pipeline.exec());
    return held.filter((_, i) => answers?.[i]?.[1] === runId);
  });
  const answered = await Promise.allSettled(ofNodes);
  return new Set(answered.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])));
}

/** Throws 503 unless every one of the shards is open: what is stored then can come into force. */
export async function requireOpen(link: RedisLink, withinMs: number, shards = ALL_SHARDS): Promise<void> {
  const open = await openShards(link, withinMs, shards);
  const closed = shards.filter((shard) => !open.has(shard));
  if (closed.length > 0) throw new ApiError('redis_away', { cause: new Error(`closed shards: ${closed.join(' ')}`) });
}
