import { readBalances, type Balance } from '../../../../shared/books/balances.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { readTurned } from '../../sync/accounts.ts';
import type { BillingRow } from '../billings/billings.ts';

// Redis may begin a grant before it hears that it was voided. It tells by sums: the account then has more of the class than its
// settings declare. So what Redis has yet to hear of a record are such voids or added credits, never both.

/**
 * Reads the balance of a locked record with all that was changed before in it: who changed it last has committed, and may be
 * about to tell Redis. Whoever adds credits to a record or voids a grant of it asks before. 503 where that takes longer than a second.
 * Undefined where Redis does not know the record.
 */
export async function readHeard(redis: ShardedRedis, record: BillingRow): Promise<Balance | undefined> {
  const deadline = redis.clock.monotonic() + HEARD_WITHIN_MS;
  for (;;) {
    const [balance] = await readBalances(redis, [record]);
    if (!balance) return undefined;
    if (balance.version! >= record.version && balance.adjustment >= record.lastAdjustment) break;
    if (redis.clock.monotonic() > deadline) throw new ApiError('redis_unavailable', { message: NOT_YET });
    await redis.clock.sleep(AGAIN_MS);
  }
  // An account has yet to take in settings that were written a moment ago.
  return readTurned(redis, record);
}

const HEARD_WITHIN_MS = 1_000;
const AGAIN_MS = 10;
const NOT_YET =
  'An earlier change of the billing record is not in force yet, and nothing was stored; repeat the request in a moment.';
