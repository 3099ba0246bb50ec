import { billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { rebuild, setAside, type WriteGrant } from '../../../shared/books/rebuilding/rebuild.ts';
import { noteUnsettled } from '../../../shared/books/rebuilding/unsettled-records.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { batchesById } from '../sync/batches.ts';

export type Stores = { sql: Sql; redis: ShardedRedis; books: Books; log: Logger };

/**
 * Sets the balances of a shard that is filled to what the books have. A record that fails alone is set aside and noted: its
 * verifications get 503 until it is rebuilt, and its shard opens all the same.
 */
export async function fillBalances(stores: Stores, shard: number, grant: WriteGrant): Promise<void> {
  const { sql, redis, log } = stores;
  const batches = batchesById<BillingRef>((after, limit) => billingRefsAfter(sql, { shards: [shard] }, after, limit));
  for await (const refs of batches) {
    const records = refs.map((billing) => ({ billing, mark: '', sequence: 0, adjustment: 0, sinceMs: 0 }));
    const failed = await rebuild(stores, records, grant);
    for (const { item, error } of failed) {
      const { billing } = item;
      await setAside(redis, [billing], grant);
      await noteUnsettled(sql, [billing.id]);
      log.error({ error, billingId: billing.id }, 'a billing record is set aside: it could not be rebuilt');
    }
  }
}
