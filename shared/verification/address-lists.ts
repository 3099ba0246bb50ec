import { ApiError } from '../contract/errors.ts';
import { makeByteCache } from '../runtime/byte-cache.ts';
import { readAddressList } from '../stores/address-lists.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { isListed } from '../values/address-list.ts';

/**
 * Says whether a list of addresses holds one; undefined while Redis does not have the list of this name. `since` is when the
 * call began, by `performance.now()`.
 */
export type SearchList = (name: string, address: string, since: number) => Promise<boolean | undefined>;

// Some 500 of the longest lists (17,000 bytes), or 50,000 short ones.
const MOST_BYTES = 8_000_000;
// A Buffer, its place in the cache and its name.
const BYTES_BESIDE_LIST = 400;

/**
 * Reads each list once and keeps it. A name means the same list for ever, so what is kept can't be outdated; which list
 * counts is for the verify script to say.
 */
export function makeSearchList(redis: ShardedRedis, deadlineMs: number): SearchList {
  const kept = makeByteCache<Buffer>(MOST_BYTES);
  const reading = new Map<string, Promise<Buffer | undefined>>();

  async function read(name: string, withinMs: number): Promise<Buffer | undefined> {
    try {
      const list = await readAddressList(redis, name, withinMs);
      // A copy: what the client read lies in a larger piece of memory, which it would hold.
      if (list) kept.set(name, Buffer.from(list), list.length + BYTES_BESIDE_LIST);
      return list;
    } catch (error) {
      throw new ApiError('redis_unavailable', { cause: error });
    } finally {
      reading.delete(name);
    }
  }

  return async function searchList(name, address, since) {
    let list = kept.get(name);
    if (!list) {
      const begun = reading.get(name) ?? read(name, Math.max(1, deadlineMs - (performance.now() - since)));
      reading.set(name, begun);
      list = await begun;
    }
    return list && isListed(list, address);
  };
}
