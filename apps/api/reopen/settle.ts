import { emptyBalance, SCRIPTS_AT_ONCE } from '../../../shared/books/balances.ts';
import { billingKey, billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { settle, type WriteGrant } from '../../../shared/books/settling/settle.ts';
import { settleDue } from '../../../shared/books/settling/settler.ts';
import { noteUnsettled } from '../../../shared/books/settling/unsettled-records.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { mapLimited } from '../../../shared/runtime/map-limited.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { batchesById } from '../sync/batches.ts';
import { noteBehind } from './note-behind.ts';
import type { Claim } from './shard-claims.ts';

/** Called with the number of records that were just written. */
export type OnProgress = (records: number) => void;
export type Stores = { sql: Sql; redis: ShardedRedis; books: Books; log: Logger };

const HOLD_WITHIN_MS = 2_000;

/**
 * Sets the balances of an emptied shard to all that the books have. A record that fails alone is held and noted: its
 * verifications get 503 until it is settled, and its shard opens all the same.
 */
export async function settleEmptied(
  stores: Stores,
  shard: number,
  grant: WriteGrant,
  onProgress: OnProgress,
): Promise<void> {
  const { sql, log } = stores;
  const batches = batchesById<BillingRef>((after, limit) => billingRefsAfter(sql, { shards: [shard] }, after, limit));
  for await (const refs of batches) {
    const balances = refs.map((ref) => emptyBalance(ref, grant(ref.shard).epoch));
    const { failed } = await settle(stores, balances, grant);
    const held = failed.map(({ billing }) => billing);
    await mapLimited(held, SCRIPTS_AT_ONCE, (billing) => hold(stores, billing, grant));
    await noteUnsettled(
      sql,
      held.map(({ id }) => id),
    );
    for (const { billing, error } of failed)
      log.error({ error, billingId: billing.id }, 'a billing record is held: its balance could not be settled');
    onProgress(refs.length);
  }
}

async function hold({ redis }: Stores, billing: BillingRef, grant: WriteGrant): Promise<void> {
  const node = redis.node(billing.shard);
  const keys = [keyspace.meta(billing.shard), billingKey(billing)];
  const args = [grant(billing.shard).fence, node.notAfter(HOLD_WITHIN_MS)];
  const [status] = await node.script('hold', keys, args, HOLD_WITHIN_MS);
  if (status !== 'OK')
    throw new ApiError('redis_unavailable', { cause: new Error(`the hold script answered ${status}`) });
}

/**
 * Settles the balances of shards that kept their data but may be behind: notes the records of which the books have later
 * events than the shard, and settles as many as `patienceMs` is enough for. What is left is done on the open shards.
 */
export async function settleBehind(
  stores: Stores,
  claims: Claim[],
  grant: WriteGrant,
  patienceMs: number,
): Promise<void> {
  if (claims.length === 0) return;
  const shards = claims.map(({ shard }) => shard);
  const patience = new AbortController();
  const noteAndSettle = async () => {
    await noteBehind(stores, shards, patience.signal);
    while (!patience.signal.aborted && (await settleDue(stores, shards, grant)) > 0);
  };
  try {
    await withTimeout(stores.redis.clock, patienceMs, noteAndSettle());
  } catch (error) {
    stores.log.warn({ error }, 'shards open before all of their balances are settled; that goes on');
  } finally {
    patience.abort();
  }
}
