import { setTimeout as sleep } from 'node:timers/promises';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { RedisNode } from '../../../shared/stores/redis-node.ts';

/** A closed shard that is ours to reopen, and what it knows of itself. */
export type Claim = { shard: number; emptied: boolean; checkpoint: number; epoch: number; sinceMs: number };

export const STEP_WITHIN_MS = 2_000;
const NAMES_AT_ONCE = 2_000;

/** Claims shards for reopening: those that are closed, or, with `close`, all, which closes them. */
export async function claim(
  node: RedisNode,
  how: 'begin' | 'close',
  args: string[],
  shards: number[],
): Promise<Claim[]> {
  const answers = await Promise.all(
    shards.map(async (shard) => ({
      shard,
      answer: await node.script(how, [keyspace.meta(shard), keyspace.outbox(shard)], args, STEP_WITHIN_MS),
    })),
  );
  return answers
    .filter(({ answer }) => answer[0] === 'CLAIMED')
    .map(({ shard, answer: [, , checkpoint, epoch, sinceMs] }) => ({
      shard,
      emptied: checkpoint === '',
      checkpoint: Number(checkpoint),
      epoch: Number(epoch),
      sinceMs: Number(sinceMs),
    }));
}

/** Holds claims for as long as it takes. Writing nothing behind the build token does it, and revives none that is gone. */
export async function renew(node: RedisNode, token: string, claims: Claim[]): Promise<void> {
  await Promise.all(
    claims.map(({ shard }) => {
      const args = [`build:${token}`, node.notAfter(STEP_WITHIN_MS), 0];
      return node.script('apply', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    }),
  );
}

/** Removes what is left of settings and balances; what Postgres does not know would never be changed again. */
export async function wipe(node: RedisNode, token: string, claims: Claim[]): Promise<void> {
  if (claims.length === 0) return;
  const ours = new Set(claims.map((one) => one.shard));
  let cursor = '0';
  do {
    const [next, names] = await node.client.scan(cursor, 'MATCH', '{??}:[ktwb]:*', 'COUNT', NAMES_AT_ONCE);
    cursor = next;
    const byShard = Map.groupBy(names, (name) => Number(name.slice(1, 3)));
    await Promise.all(
      [...byShard].map(async ([shard, some]) => {
        if (!ours.has(shard)) return;
        const [status] = await node.script('wipe', [keyspace.meta(shard), ...some], [token], STEP_WITHIN_MS);
        if (status !== 'OK') throw new Error(`shard ${shard} was claimed by another builder`);
      }),
    );
  } while (cursor !== '0');
}

/** Opens a shard that was brought up to date, once it was closed for long enough. */
export async function open(node: RedisNode, shard: number, args: (string | number)[]): Promise<void> {
  for (;;) {
    const [status, , waitMs] = await node.script('open', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    if (status === 'OPEN') return;
    if (status === 'LOST') throw new Error(`shard ${shard} was claimed by another builder`);
    await sleep(Number(waitMs));
  }
}
