import { hash } from 'node:crypto';
import { withTimeout } from '../runtime/timeout.ts';
import { shardText } from '../values/key-text.ts';
import { END } from './fields.ts';
import { keyspace } from './keyspace.ts';
import type { ShardedRedis } from './redis.ts';

// A list of addresses is stored once, apart from the records that name it: that of a workspace, which every shard's keys
// may use, in one shard; that of a key in the key's. A record names it by shard, owner and a hash of its bytes, so whoever
// reads the list knows that it is the one that the record means. A list that is gone, older or newer is none: without the
// right one there is no decision.

/** The name of a list in a record. */
export function addressListName(shard: number, ownerId: string, list: Buffer): string {
  return `${shardText(shard)}:${ownerId}:${hashOf(list)}`;
}

/** A list as Redis stores it: after the version of the record that names it. */
export function packStoredList(version: number, list: Buffer): Buffer {
  return Buffer.concat([Buffer.from(version + END), list]);
}

/** Reads the list that a record names; undefined where Redis does not have it, or not any more, or not yet. */
export async function readAddressList(
  redis: ShardedRedis,
  name: string,
  withinMs: number,
): Promise<Buffer | undefined> {
  const [shard = '', ownerId = '', expected] = name.split(':');
  const { client } = redis.node(Number(shard));
  const stored = await withTimeout(
    redis.clock,
    withinMs,
    client.getBuffer(keyspace.addressList(Number(shard), ownerId)),
  );
  const list = stored?.subarray(stored.indexOf(END) + 1);
  return list && hashOf(list) === expected ? list : undefined;
}

// 132 bits of SHA-256: nobody finds another list with the same.
function hashOf(list: Buffer): string {
  return hash('sha256', list, 'base64url').slice(0, 22);
}
