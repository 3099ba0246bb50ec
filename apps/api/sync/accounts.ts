import { readBalances, type Balance } from '../../../shared/books/balances.ts';
import { billingKey, type BillingRef } from '../../../shared/books/billing-refs.ts';
import type { AccountState, ClassUse } from '../../../shared/books/account-state.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { PLAIN_NUMBER } from '../../../shared/stores/account-settings.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { bringUpToDate } from '../../../shared/verification/account-moments.ts';

/**
 * A record's balance, and what its classes of credits gave; nothing of it is due. `forgotten`: of classes that ended more than a day
 * ago, by number, as far as they were asked for.
 */
export type RecordAccount = { balance: Balance; state: AccountState; forgotten: ReadonlyMap<number, ClassUse> };

type PlainRecord = BillingRef & { totalMicros: number };

/** Reads a record's balance, after bringing its account up to date where something is due or its settings are new; undefined where Redis does not know it. */
export async function readTurned(redis: ShardedRedis, record: BillingRef): Promise<Balance | undefined> {
  const [balance] = await readBalances(redis, [record]);
  const isDue = balance?.account && balance.account.untilMs <= balance.atMs;
  if (!isDue && !balance?.lacksSettings) return balance;
  await bringUpToDate(redis, record.shard, billingKey(record));
  const [current] = await readBalances(redis, [record]);
  return current;
}

/** Reads the account of a record; that of a plain one is its one class. 503 where Redis does not know it. */
export async function readAccount(redis: ShardedRedis, record: PlainRecord): Promise<RecordAccount> {
  const balance = await readTurned(redis, record);
  if (!balance) throw new ApiError('redis_unavailable');
  return { balance, state: balance.account?.state ?? plainState(record, balance), forgotten: new Map() };
}

// Redis may begin a grant before it hears that it was voided. It tells by sums: the account then has more of the class than its
// settings declare. So what Redis has yet to hear of a record are such voids or added credits, never both.

/**
 * Reads the account of a locked record with all that was changed before in it: who changed it last has committed, and may be
 * about to tell Redis. Whoever adds credits to a record or voids a grant of it asks before. 503 where that takes longer than a second,
 * or Redis does not know the record.
 */
export async function readHeard(redis: ShardedRedis, record: LockedRecord): Promise<RecordAccount> {
  const deadline = redis.clock.monotonic() + HEARD_WITHIN_MS;
  for (;;) {
    const [balance] = await readBalances(redis, [record]);
    if (!balance) throw new ApiError('redis_unavailable');
    if (balance.version! >= record.version && balance.adjustment >= record.lastAdjustment) break;
    if (redis.clock.monotonic() > deadline) throw new ApiError('redis_unavailable', { message: NOT_YET });
    await redis.clock.sleep(AGAIN_MS);
  }
  // An account has yet to take in settings that were written a moment ago.
  return readAccount(redis, record);
}

type LockedRecord = PlainRecord & { version: number; lastAdjustment: number };

const HEARD_WITHIN_MS = 1_000;
const AGAIN_MS = 10;
const NOT_YET =
  'An earlier change of the billing record is not in force yet, and nothing was stored; repeat the request in a moment.';

function plainState({ totalMicros }: PlainRecord, { usedMicros }: Balance): AccountState {
  const gaveMicros = Math.min(usedMicros, totalMicros);
  const plain = { number: PLAIN_NUMBER, grantedMicros: totalMicros, usedMicros: gaveMicros, heldMicros: 0 };
  return { version: 0, overdrawnMicros: usedMicros - gaveMicros, classes: [plain], ended: [] };
}
