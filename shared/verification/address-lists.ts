import { ApiError } from '../contract/errors.ts';
import { makeByteCache } from '../runtime/byte-cache.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { readAddressList } from '../stores/address-lists.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { isListed } from '../values/address-list.ts';

export type AddressLists = {
  /**
   * Says whether a list of addresses holds one; undefined while Redis does not have the list of this name. `since` is when the
   * call began, by `performance.now()`.
   */
  search(name: string, address: string, since: number): Promise<boolean | undefined>;
  /** Whether to wait for a list that is not there; not right after another call waited in vain. */
  mayCome(name: string): boolean;
  waitedInVain(name: string): void;
};

// Some 500 of the longest lists (17,000 bytes), or 50,000 short ones.
const MOST_BYTES = 8_000_000;
// A Buffer, its place in the cache and its name.
const BYTES_BESIDE_LIST = 400;
// A missing list is given up for so long, for some 3,000 lists.
const GIVEN_UP_MS = 100;
const MOST_BYTES_OF_MISSING = 1_000_000;

/**
 * Reads each list once and keeps it. A name means the same list for ever, so what is kept can't be outdated; which list
 * counts is for the verify script to say.
 */
export function makeAddressLists(redis: ShardedRedis, deadlineMs: number): AddressLists {
  const kept = makeByteCache<Buffer>(MOST_BYTES);
  const givenUpUntil = makeByteCache<number>(MOST_BYTES_OF_MISSING);
  const reading = new Map<string, Promise<Buffer | undefined>>();

  async function read(name: string): Promise<Buffer | undefined> {
    try {
      const list = await readAddressList(redis, name, deadlineMs);
      // A copy: what the client read lies in a larger piece of memory, which it would hold.
      if (list) kept.set(name, Buffer.from(list), list.length + BYTES_BESIDE_LIST);
      return list;
    } finally {
      reading.delete(name);
    }
  }

  /** Calls share a reading, but not the deadline of the one that began it. */
  async function readWithin(name: string, withinMs: number): Promise<Buffer | undefined> {
    const begun = reading.get(name) ?? read(name);
    reading.set(name, begun);
    try {
      return await withTimeout(withinMs, begun);
    } catch (error) {
      throw new ApiError('redis_unavailable', { cause: error });
    }
  }

  return {
    async search(name, address, since) {
      const list = kept.get(name) ?? (await readWithin(name, Math.max(1, deadlineMs - (performance.now() - since))));
      return list && isListed(list, address);
    },
    mayCome: (name) => (givenUpUntil.get(name) ?? 0) < performance.now(),
    waitedInVain(name) {
      givenUpUntil.set(name, performance.now() + GIVEN_UP_MS, BYTES_BESIDE_LIST);
    },
  };
}
