import { ApiError } from '../contract/errors.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { keyspace } from './keyspace.ts';
import type { RedisNode } from './redis-node.ts';
import type { ShardedRedis } from './redis.ts';
import { probeOf } from './scripts.ts';
import { unlessWritten } from './unless-written.ts';
import { withTimeout } from '../runtime/timeout.ts';

// A shard is open while its owner is the server that answers. A server that restarted, was emptied or was replaced has
// another run id, or no owner, until the api has brought the shard up to date and opened it.

/**
 * What an open shard says of itself: its epoch, the number of the last change of Postgres that it got, the history of Postgres that its
 * checkpoint belongs to, and the keys that MACs of holds are made with.
 */
export type OpenShard = { epoch: number; change: number; history: string; holdKeys: string };

/** Which of the given shards, or of all, are surely open; those of a server that does not answer, or lacks the scripts, are not. */
export async function openShards(
  redis: ShardedRedis,
  withinMs: number,
  shards = ALL_SHARDS,
): Promise<Map<number, OpenShard>> {
  return openOf(await readShards(redis, withinMs, shards));
}

/**
 * Which shards were open a moment ago, for what a process does again and again in the background: looks are shared. What is then done at
 * a shard is fenced by the script that does it.
 */
export async function lastOpenShards(redis: ShardedRedis): Promise<Map<number, OpenShard>> {
  return openOf(await lastKnown(redis));
}

type KnownShard = OpenShard & { isOpen: boolean; hasScripts: boolean };

function openOf(shards: Map<number, KnownShard>): Map<number, OpenShard> {
  return new Map([...shards].filter(([, { isOpen }]) => isOpen));
}

const LOOK_LASTS_MS = 500;
const LOOK_WITHIN_MS = 1_000;
type Look = { atMs: number; shards: Promise<Map<number, KnownShard>> };
const looks = new WeakMap<ShardedRedis, Look>();

/** What `readShards` gave of all shards a moment ago. */
export function lastKnown(redis: ShardedRedis): Promise<Map<number, KnownShard>> {
  const look = looks.get(redis);
  const isNew = look && redis.clock.monotonic() < look.atMs + LOOK_LASTS_MS;
  return isNew ? look.shards : readShards(redis, LOOK_WITHIN_MS);
}

/**
 * What each shard says of itself, whether it is open or not: a closed shard too knows what a restored Postgres has lost. Shards of a
 * server that does not answer are left out.
 */
export function readShards(
  redis: ShardedRedis,
  withinMs: number,
  shards = ALL_SHARDS,
): Promise<Map<number, KnownShard>> {
  const asked = askShards(redis, withinMs, shards);
  if (shards === ALL_SHARDS) looks.set(redis, { atMs: redis.clock.monotonic(), shards: asked });
  return asked;
}

async function askShards(redis: ShardedRedis, withinMs: number, shards: readonly number[]) {
  const ofNodes = [...redis.byNode(shards)].map(async ([node, held]) =>
    // Of some shards, for a call: at once.
    shards === ALL_SHARDS ? (await readUnlessWritten(node, held, withinMs)).read : readHeld(node, held, withinMs),
  );
  const answered = await Promise.allSettled(ofNodes);
  return new Map(answered.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])));
}

const readUnlessWritten = unlessWritten(
  readHeld,
  (read, held) => read.length === held.length && read.every(([, { hasScripts }]) => hasScripts),
);

async function readHeld(node: RedisNode, held: number[], withinMs: number): Promise<[number, KnownShard][]> {
  const runId = node.runId();
  const pipeline = node.client.pipeline();
  for (const shard of held) pipeline.hmget(keyspace.meta(shard), 'owner', 'epoch', 'change', 'history', 'holdKeys');
  pipeline.fcall(probeOf(node.client), 0, runId, 0, '');
  const answers = (await withTimeout(node.clock, withinMs, pipeline.exec())) ?? [];
  const hasScripts = answers.at(-1)?.[0] === null;
  return held.flatMap((shard, i): [number, KnownShard][] => {
    const [error, fields = []] = (answers[i] ?? [new Error()]) as [Error | null, (string | null)[]?];
    const [owner, epoch, change, history = '', holdKeys = ''] = fields.map((field) => field ?? '');
    const said = { epoch: Number(epoch), change: Number(change), history, holdKeys };
    return error ? [] : [[shard, { ...said, hasScripts, isOpen: owner === runId && hasScripts }]];
  });
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
