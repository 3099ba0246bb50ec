import { billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { rebuild, type RebuildStores, type WriteGrant } from '../../../shared/books/rebuilding/rebuild.ts';
import { batchesById } from '../sync/batches.ts';

/** Sets the balances of a shard that is filled to what the books have. A record that fails alone does not keep it from opening. */
export async function fillBalances(stores: RebuildStores, shard: number, grant: WriteGrant): Promise<void> {
  const batches = batchesById<BillingRef>((after, limit) =>
    billingRefsAfter(stores.sql, { shards: [shard] }, after, limit),
  );
  for await (const refs of batches) {
    const records = refs.map((billing) => ({ billing, mark: '', sequence: 0, adjustment: 0, sinceMs: 0 }));
    await rebuild(stores, records, grant);
  }
}
