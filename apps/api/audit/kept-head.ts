import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { headText, parseHead, type Head } from './line-mac.ts';

// The head of the chain is kept in Redis too: who removes the newest lines from Postgres, with their places in the chain,
// can't remove it there.

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
