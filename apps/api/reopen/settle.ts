import { readBalances, type Balance } from '../../../shared/books/balances.ts';
import { billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { grantOfOpenShards, settle, type WriteGrant } from '../../../shared/books/settle.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { retry } from '../../../shared/runtime/retry.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import { batchesById } from '../sync/batches.ts';
import type { Claim } from './shard-claims.ts';

/** Called with the number of records that were just written. */
export type OnProgress = (records: number) => void;
export type Stores = { sql: Sql; redis: ShardedRedis; books: Books; log: Logger };

// How far apart the clocks of Redis and ClickHouse may be. Events that a larger difference hides, reconcile finds.
const CLOCKS_APART_MS = 5 * 60_000;
const SETTLE_FOR_MS = 10 * 60_000;

/** Sets the balances of emptied shards to all that the books have. */
export async function settleEmptied(
  stores: Stores,
  shards: number[],
  grant: WriteGrant,
  onProgress: OnProgress,
): Promise<void> {
  const { sql } = stores;
  const batches = batchesById<BillingRef>((after, limit) => billingRefsAfter(sql, { shards }, after, limit));
  for await (const refs of batches) {
    const balances = refs.map((ref) => emptyBalance(ref, grant(ref.shard).epoch));
    await settle(stores, balances, grant);
    onProgress(refs.length);
  }
}

/**
 * Settles the balances of shards that kept their data but may be behind: those of records of which the books have later
 * events than the shard. If the books do not answer within `patienceMs`, the shards open without them, and the returned
 * function settles the balances on the open shards.
 */
export async function settleBehind(
  stores: Stores,
  claims: Claim[],
  grant: WriteGrant,
  patienceMs: number,
): Promise<() => Promise<void>> {
  const { redis, log } = stores;
  if (claims.length === 0) return async () => {};
  const settleNow = async () => {
    const refs = await laterInBooks(stores, claims);
    const found = await readBalances(redis, refs, undefined, (shard) => grant(shard).fence);
    const balances = found.map((balance) => ({ ...balance, epoch: grant(balance.billing.shard).epoch }));
    await settleAll(stores, balances, grant);
  };
  try {
    await withTimeout(patienceMs, settleNow());
    return async () => {};
  } catch (error) {
    log.warn({ error }, 'shards open before the books could tell whether they are behind');
    return async () => {
      const signal = AbortSignal.timeout(SETTLE_FOR_MS);
      await retry(signal, log, 'settling balances of reopened shards', async () => {
        const found = await readBalances(redis, await laterInBooks(stores, claims));
        await settleAll(stores, found, grantOfOpenShards(redis, found));
      });
    };
  }
}

async function settleAll(stores: Stores, balances: Balance[], grant: WriteGrant): Promise<void> {
  const settled = await settle(stores, balances, grant);
  if (settled.length > 0)
    stores.log.warn({ records: settled.length }, 'balances were behind the books and were set from them');
}

/** Records of which the books may have events that a shard lacks: events that arrived there since the shard's last one. */
async function laterInBooks({ sql, books }: Stores, claims: Claim[]): Promise<BillingRef[]> {
  const answer = await books.client.query({
    query: `select distinct billing_id from usage_events
            where inserted_at >= fromUnixTimestamp64Milli({sinceMs:Int64}) and billing_id != ''
              and epoch >= {epoch:UInt32} and kind in ('verification', 'adjustment')`,
    query_params: {
      sinceMs: Math.max(0, Math.min(...claims.map((claim) => claim.sinceMs)) - CLOCKS_APART_MS),
      epoch: Math.min(...claims.map((claim) => claim.epoch)),
    },
    format: 'JSONCompactEachRow',
  });
  const ids = (await answer.json<[id: string]>()).map(([id]) => id);
  return orGiveUp(
    sql<BillingRef[]>`
      select id, shard, workspace_id, external_meter_id from billing_records
      where id = any(${ids}) and shard = any(${claims.map((claim) => claim.shard)})`,
  );
}

/**
 * Puts adjustments that a shard has lost back into `changes`, from where the sweeper applies them: for each record those
 * above the number of the last one that its shard knows.
 */
export async function recordLostAdjustments({ sql, redis }: Stores, claims: Claim[], grant: WriteGrant): Promise<void> {
  const shards = claims.map((claim) => claim.shard);
  const batches = batchesById<BillingRef & { lastAdjustment: number }>(
    (after, limit) => sql`
    select id, shard, workspace_id, external_meter_id, last_adjustment from billing_records
    where shard = any(${shards}) and last_adjustment > 0 and id > ${after} order by id limit ${limit}`,
  );
  for await (const records of batches) {
    const balances = await readBalances(redis, records, undefined, (shard) => grant(shard).fence);
    const applied = new Map(balances.map(({ billing, adjustment }) => [billing.id, adjustment]));
    const lost = records.filter((record) => (applied.get(record.id) ?? 0) < record.lastAdjustment);
    if (lost.length === 0) continue;
    // Dated back, so that the sweeper applies them at once.
    await sql`
      insert into changes (kind, entity_id, shard, created_at)
      select 'adjustment', a.id, lost.shard, now() - interval '1 minute'
      from unnest(${lost.map((record) => record.id)}::text[], ${lost.map((record) => record.shard)}::smallint[],
                  ${lost.map((record) => applied.get(record.id) ?? 0)}::int[]) as lost (billing_id, shard, applied)
      join adjustments a on a.billing_id = lost.billing_id and a.number > lost.applied
      order by a.billing_id, a.number`;
  }
}

function emptyBalance(billing: BillingRef, epoch: number): Balance {
  const nothing = { usedMicros: 0, lateMicros: 0, lateEvents: 0, adjustment: 0 };
  return { billing, atMs: 0, epoch, ...nothing, sequences: new Map() };
}
