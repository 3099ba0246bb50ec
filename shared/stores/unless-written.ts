import { redisTimeMs } from './known-server.ts';
import { withTimeout } from '../runtime/timeout.ts';
import type { RedisNode } from './redis-node.ts';

/** What was not written is read again all the same after so long: what ends by itself is no write. */
export const SLOW_LOOK_MS = 5_000;

/** The time of a server, in ms, and a mark that is another one after each write to it: '' where it does not count them. */
export type WriteLook = { nowMs: number; mark: string };

/** Asks a server for its time, and then how much it was written and what it has brought to its disk (INFO). */
export async function askPersistence(node: RedisNode, withinMs: number): Promise<WriteLook & { persistence: string }> {
  // No pipeline: ioredis copies all of its commands into each.
  const asked = Promise.all([node.client.time(), node.client.info('persistence')]);
  const [time, persistence] = await withTimeout(node.clock, withinMs, asked);
  const [, writes] = /^rdb_changes_since_last_save:(\d+)/m.exec(persistence) ?? [];
  // Redis counts anew with each snapshot.
  const [, savedAt = ''] = /^rdb_last_save_time:(\d+)/m.exec(persistence) ?? [];
  const mark = writes === undefined ? '' : `${node.runId()} ${savedAt} ${writes}`;
  return { nowMs: redisTimeMs(time), persistence, mark };
}

/**
 * Makes a reader of shards of a server that gives again what it read before while nobody has written to the server, for some seconds at
 * most. What is not `isWhole` is not kept.
 */
export function unlessWritten<Read>(
  read: (node: RedisNode, shards: number[], withinMs: number) => Promise<Read>,
  isWhole: (read: Read, shards: number[]) => boolean = () => true,
): (node: RedisNode, shards: number[], withinMs: number) => Promise<WriteLook & { read: Read }> {
  const kept = new WeakMap<RedisNode, { of: string; until: number; read: Read }>();
  return async (node, shards, withinMs) => {
    const { nowMs, mark } = await askTogether(node, withinMs);
    const look = { nowMs, mark };
    const of = `${mark} ${shards.join()}`;
    const known = kept.get(node);
    if (known?.of === of && node.clock.monotonic() < known.until) return { ...look, read: known.read };
    const now = await read(node, shards, withinMs);
    if (mark !== '' && isWhole(now, shards))
      kept.set(node, { of, until: node.clock.monotonic() + SLOW_LOOK_MS, read: now });
    return { ...look, read: now };
  };
}

const underWay = new WeakMap<RedisNode, Promise<WriteLook>>();

/** All who ask while an answer is under way share it. */
function askTogether(node: RedisNode, withinMs: number): Promise<WriteLook> {
  const asked = underWay.get(node) ?? askPersistence(node, withinMs).finally(() => underWay.delete(node));
  underWay.set(node, asked);
  return asked;
}
