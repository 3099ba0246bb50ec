import { readBalances, type Balance } from '../../../shared/books/balances.ts';
import { billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { grantOfOpenShards, settle, type WriteGrant } from '../../../shared/books/settle.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { retry } from '../../../shared/runtime/retry.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import { inBatches } from '../sync/batches.ts';
import type { Claim } from './shard-claims.ts';

/** Told how many more records were written. */
export type OnProgress = (records: number) => void;
export type Stores = { sql: Sql; redis: ShardedRedis; books: Books; log: Logger };

// How far the clocks of Redis and ClickHouse may lie apart. What is missed for more than that, reconcile finds.
const CLOCKS_APART_MS = 5 * 60_000;
const SETTLE_FOR_MS = 10 * 60_000;

/** Balances of emptied shards: all that the books have. */
export async function settleEmptied(
  stores: Stores,
  shards: number[],
  grant: WriteGrant,
  onProgress: OnProgress,
): Promise<void> {
  const { sql, redis, books } = stores;
  const rows = inBatches<BillingRef, string>(
    '',
    (billing) => billing.id,
    (after, limit) => billingRefsAfter(sql, { shards }, after, limit),
  );
  for await (const billings of rows) {
    const balances = billings.map((billing) => unknown(billing, grant(billing.shard).epoch));
    await settle(redis, books, balances, grant);
    onProgress(billings.length);
  }
}

/**
 * Balances of shards that were not emptied but may be behind: of records that the books have later events of than the
 * shard. The books are given a moment for it; an intact shard opens without them, and what is given back then finishes
 * the work on the open shard.
 */
export async function settleBehind(
  stores: Stores,
  claims: Claim[],
  grant: WriteGrant,
  patienceMs: number,
): Promise<() => Promise<void>> {
  const { redis, log } = stores;
  const behind = claims.filter((one) => !one.emptied);
  if (behind.length === 0) return async () => {};
  try {
    const before = async () => {
      const billings = await laterInBooks(stores, behind);
      const found = await readBalances(redis, billings, undefined, (shard) => grant(shard).fence);
      await settleAll(
        stores,
        found.map((balance) => ({ ...balance, epoch: grant(balance.billing.shard).epoch })),
        grant,
      );
    };
    await withTimeout(patienceMs, before());
    return async () => {};
  } catch (error) {
    log.warn({ error }, 'shards are opened before the books could tell whether they are behind');
    return async () => {
      const signal = AbortSignal.timeout(SETTLE_FOR_MS);
      await retry(signal, log, 'settling balances of reopened shards', async () => {
        const found = await readBalances(redis, await laterInBooks(stores, behind));
        await settleAll(stores, found, grantOfOpenShards(redis, found));
      });
    };
  }
}

async function settleAll({ redis, books, log }: Stores, balances: Balance[], grant: WriteGrant): Promise<void> {
  const settled = await settle(redis, books, balances, grant);
  if (settled.length > 0)
    log.warn({ records: settled.length }, 'balances were behind the books and are taken from them');
}

/** Records of which the books may have events that a shard lacks: those that came in since its last one. */
async function laterInBooks({ sql, books }: Stores, claims: Claim[]): Promise<BillingRef[]> {
  const answer = await books.client.query({
    query: `select distinct billing_id from usage_events
            where inserted_at >= fromUnixTimestamp64Milli({sinceMs:Int64}) and billing_id != ''
              and epoch >= {epoch:UInt32} and kind in ('verification', 'adjustment')`,
    query_params: {
      sinceMs: Math.max(0, Math.min(...claims.map((one) => one.sinceMs)) - CLOCKS_APART_MS),
      epoch: Math.min(...claims.map((one) => one.epoch)),
    },
    format: 'JSONCompactEachRow',
  });
  const ids = (await answer.json<[id: string]>()).map(([id]) => id);
  return orGiveUp(
    sql<BillingRef[]>`
      select id, shard, workspace_id, external_meter_id from billing_records
      where id = any(${ids}) and shard = any(${claims.map((one) => one.shard)})`,
  );
}

/**
 * Adjustments that neither a shard nor the books have any more wait in the outbox of changes again: those of an emptied
 * or long outdated shard above the number that it has now, of others those that came after its checkpoint.
 */
export async function recordLostAdjustments({ sql, redis }: Stores, claims: Claim[], grant: WriteGrant): Promise<void> {
  const shards = claims.map((one) => one.shard);
  const rows = inBatches<BillingRef & { lastAdjustment: number }, string>(
    '',
    (row) => row.id,
    (after, limit) => sql`
    select id, shard, workspace_id, external_meter_id, last_adjustment from billing_records
    where shard = any(${shards}) and last_adjustment > 0 and id > ${after} order by id limit ${limit}`,
  );
  for await (const records of rows) {
    const balances = await readBalances(redis, records, undefined, (shard) => grant(shard).fence);
    const applied = new Map(balances.map(({ billing, adjustment }) => [billing.id, adjustment]));
    const lost = records.filter((record) => (applied.get(record.id) ?? 0) < record.lastAdjustment);
    if (lost.length === 0) continue;
    // Old enough for the sweeper to apply them at once.
    await sql`
      insert into changes (kind, entity_id, shard, created_at)
      select 'adjustment', a.id, lost.shard, now() - interval '1 minute'
      from unnest(${lost.map((one) => one.id)}::text[], ${lost.map((one) => one.shard)}::smallint[],
                  ${lost.map((one) => applied.get(one.id) ?? 0)}::int[]) as lost (billing_id, shard, applied)
      join adjustments a on a.billing_id = lost.billing_id and a.number > lost.applied
      order by a.billing_id, a.number`;
  }
}

function unknown(billing: BillingRef, epoch: number): Balance {
  const nothing = { usedMicros: 0, lateMicros: 0, lateEvents: 0, adjustment: 0 };
  return { billing, atMs: 0, epoch, ...nothing, numbers: new Map() };
}
