import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';

/** A place in the chain: how many lines it has up to there, and the hash of the last one. */
export type Head = { number: number; hash: string };

/** A head as people and Redis keep it. */
export function headText({ number, hash }: Head): string {
  return `${number}:${hash}`;
}

/** Reads what `headText` wrote; undefined for any other text. */
export function parseHead(text: string): Head | undefined {
  const [, number, hash] = /^([1-9]\d{0,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  return hash === undefined ? undefined : { number: Number(number), hash };
}

// The head of the chain is kept in Redis too: who writes the chain of Postgres again, or removes its newest lines, can't do so there.

/** The head that Redis keeps; undefined if it keeps none. */
export async function readKeptHead(redis: ShardedRedis): Promise<Head | undefined> {
  const text = await redis.node(0).client.get(keyspace.auditHead());
  if (text === null) return undefined;
  const head = parseHead(text);
  if (!head) throw new Error('what Redis keeps as the head of the audit log is no head');
  return head;
}

/** Keeps a head in the place of the earlier one. */
export async function keepHead(redis: ShardedRedis, head: Head): Promise<void> {
  await redis.node(0).client.set(keyspace.auditHead(), headText(head));
}

/** Forgets the head: for an operator who has put an older Postgres back. */
export async function forgetHead(redis: ShardedRedis): Promise<void> {
  await redis.node(0).client.unlink(keyspace.auditHead());
}
