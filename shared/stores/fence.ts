import { ApiError } from '../contract/errors.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { keyspace } from './keyspace.ts';
import type { ShardedRedis } from './redis.ts';
import { probeOf } from './scripts.ts';
import { withTimeout } from '../runtime/timeout.ts';

// A shard is open while its owner is the server that answers. A server that restarted, was emptied or was replaced has
// another run id, or no owner, until the api has brought the shard up to date and opened it.

/**
 * What an open shard says of itself: its epoch, the number of the last change of Postgres that it got, and the history of
 * Postgres that its checkpoint belongs to.
 */
export type OpenShard = { epoch: number; change: number; history: string };

/** Which of the given shards, or of all, are surely open; those of a server that does not answer, or lacks the scripts, are not. */
export async function openShards(
  redis: ShardedRedis,
  withinMs: number,
  shards = ALL_SHARDS,
): Promise<Map<number, OpenShard>> {
  const all = await readShards(redis, withinMs, shards);
  return new Map([...all].filter(([, { isOpen }]) => isOpen));
}

/**
 * The last change of Postgres that each shard got, and its epoch, whether it is open or not: a closed shard too knows what
 * a restored Postgres has lost. Shards of a server that does not answer are left out.
 */
export async function lastChanges(
  redis: ShardedRedis,
  withinMs: number,
): Promise<Map<number, Pick<OpenShard, 'change' | 'epoch'>>> {
  return readShards(redis, withinMs, ALL_SHARDS);
}

async function readShards(redis: ShardedRedis, withinMs: number, shards: readonly number[]) {
  const ofNodes = [...redis.byNode(shards)].map(async ([node, held]) => {
    const runId = node.runId();
    const pipeline = node.client.pipeline();
    for (const shard of held) pipeline.hmget(keyspace.meta(shard), 'owner', 'epoch', 'change', 'history');
    pipeline.fcall(probeOf(node.client), 0, runId, 0, '');
    const answers = (await withTimeout(node.clock, withinMs, pipeline.exec())) ?? [];
    const [lacksScripts] = answers.at(-1) ?? [new Error()];
    return held.flatMap((shard, i) => {
      const [error, fields = []] = (answers[i] ?? [new Error()]) as [Error | null, (string | null)[]?];
      const [owner, epoch, change, history] = fields;
      const said = { epoch: Number(epoch ?? 0), change: Number(change ?? 0), history: history ?? '' };
      return error ? [] : [[shard, { ...said, isOpen: owner === runId && !lacksScripts }] as const];
    });
  });
  const answered = await Promise.allSettled(ofNodes);
  return new Map(answered.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])));
}

/** Throws 503 unless each of the given shards, or of all, is open: only then can a change come into force. */
export async function requireOpen(
  redis: ShardedRedis,
  withinMs: number,
  shards = ALL_SHARDS,
): Promise<Map<number, OpenShard>> {
  const open = await openShards(redis, withinMs, shards);
  const closed = shards.filter((shard) => !open.has(shard));
  if (closed.length > 0)
    throw new ApiError('redis_unavailable', { cause: new Error(`closed shards: ${closed.join(' ')}`) });
  return open;
}
