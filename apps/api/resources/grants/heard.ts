import { readBalances, type Balance } from '../../../../shared/books/balances.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { readTurned } from '../../sync/accounts.ts';
import type { BillingRow } from '../billings/billings.ts';

// Redis may begin a grant before it hears that it was voided. It tells by sums: the account then has more of the class than its
// settings declare. So what Redis has yet to hear of a record are such voids or added credits, never both.

/** Throws while Redis has yet to hear of the void of a grant to come: no credits are added to the record until then. */
export async function requireVoidsHeard(sql: Query, { id }: { id: string }): Promise<void> {
  const unheard = await sql`
    select from changes c join adjustments a on a.id = c.entity_id
    where a.billing_id = ${id} and a.before_micros < 0 and c.applied_at is null`;
  if (unheard.length > 0) throw notYet();
}

/** Throws while Redis has yet to hear of what may have added credits: no grant to come is voided until then. Voids add none. */
export async function requireCreditsHeard(sql: Query, { id }: { id: string }): Promise<void> {
  const unheard = await sql`
    select from changes c
    where c.entity_id = ${id} and c.applied_at is null
      and not exists (select from changes v where v.tx = c.tx and v.kind = 'adjustment')`;
  if (unheard.length > 0) throw notYet();
}

/**
 * Reads the balance of a locked record with all that was changed before in it: who changed it last has committed, and may be
 * about to tell Redis. 503 where that takes longer than a second. Undefined where Redis does not know the record.
 */
export async function readHeard(redis: ShardedRedis, record: BillingRow): Promise<Balance | undefined> {
  const deadline = redis.clock.monotonic() + HEARD_WITHIN_MS;
  for (;;) {
    const [balance] = await readBalances(redis, [record]);
    if (!balance) return undefined;
    if (balance.version! >= record.version && balance.adjustment >= record.lastAdjustment) break;
    if (redis.clock.monotonic() > deadline) throw notYet();
    await redis.clock.sleep(AGAIN_MS);
  }
  // An account has yet to take in settings that were written a moment ago.
  return readTurned(redis, record);
}

const HEARD_WITHIN_MS = 1_000;
const AGAIN_MS = 10;

function notYet(): ApiError {
  const message =
    'An earlier change of the billing record is not in force yet, and nothing was stored; repeat the request in a moment.';
  return new ApiError('redis_unavailable', { message });
}
