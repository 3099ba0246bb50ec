import { ApiError } from '../contract/errors.ts';
import { makeByteCache } from '../runtime/byte-cache.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { readAddressList } from '../stores/address-lists.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { isListed } from '../values/address-list.ts';

export type AddressLists = {
  /**
   * Says whether a list of addresses holds one; undefined while Redis does not have the list of this name. `since` is when the
   * call began, by `redis.clock.monotonic()`.
   */
  search(name: string, address: string, since: number): Promise<boolean | undefined>;
  /** Whether to ask the script again, which wanted this list; waits before, where the list is not there. */
  askAgain(round: number, name: string, missing: boolean): Promise<boolean>;
};

// Some 500 of the longest lists (17,000 bytes), or 50,000 short ones.
const MOST_BYTES = 8_000_000;
// A Buffer, its place in the cache and its name.
const BYTES_BESIDE_LIST = 400;
// While a change of a list is under way, for some milliseconds, its name and the list itself may not match.
const MOST_ROUNDS = 5;
const LIST_WAIT_MS = 20;
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
      return await withTimeout(redis.clock, withinMs, begun);
    } catch (error) {
      throw new ApiError('redis_unavailable', { cause: error });
    }
  }

  return {
    async search(name, address, since) {
      const list =
        kept.get(name) ?? (await readWithin(name, Math.max(1, deadlineMs - (redis.clock.monotonic() - since))));
      return list && isListed(list, address);
    },
    async askAgain(round, name, missing) {
      if (missing && (givenUpUntil.get(name) ?? 0) > redis.clock.monotonic()) return false;
      if (round < MOST_ROUNDS) {
        // The list was not there although its name was known: it is being written, or its name is being replaced.
        if (missing && round > 1) await redis.clock.sleep(LIST_WAIT_MS);
        return true;
      }
      if (missing) givenUpUntil.set(name, redis.clock.monotonic() + GIVEN_UP_MS, BYTES_BESIDE_LIST);
      return false;
    },
  };
}
