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

/** Reads the account of a record. 503 where Redis does not know it. */
export async function readAccount(redis: ShardedRedis, record: PlainRecord): Promise<RecordAccount> {
  return accountOf(record, await readTurned(redis, record));
}

/** The account of a record by its balance; that of a plain one is its one class. 503 where Redis does not know it. */
export function accountOf(record: PlainRecord, balance: Balance | undefined): RecordAccount {
  if (!balance) throw new ApiError('redis_unavailable');
  const state = balance.account?.state ?? plainState(record, balance);
  return { balance, state, forgotten: new Map() };
}

function plainState({ totalMicros }: PlainRecord, { usedMicros }: Balance): AccountState {
  const gaveMicros = Math.min(usedMicros, totalMicros);
  const plain = { number: PLAIN_NUMBER, grantedMicros: totalMicros, usedMicros: gaveMicros, heldMicros: 0 };
  return { version: 0, overdrawnMicros: usedMicros - gaveMicros, classes: [plain], ended: [] };
}
