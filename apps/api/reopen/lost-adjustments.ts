import { findBalances } from '../../../shared/books/balances.ts';
import type { BillingRef } from '../../../shared/books/billing-refs.ts';
import type { WriteGrant } from '../../../shared/books/rebuilding/rebuild.ts';
import { batchesById } from '../sync/batches.ts';
import type { Stores } from './fill-balances.ts';
import type { Claim } from './shard-claims.ts';

/**
 * Puts adjustments that a shard has lost back into `changes`, from where the sweeper applies them: of each record that lacks some
 * the last one, which brings those before it along. So a record that can't be adjusted yet, because it is set aside, has one change
 * that waits, however many it lacks. The lost voids of grants to come are put back, too: while one waits, no credits are added. A
 * corrupt record knows none for sure, and gets none.
 */
export async function recordLostAdjustments(
  { sql, redis }: Pick<Stores, 'sql' | 'redis'>,
  claims: Pick<Claim, 'shard'>[],
  grant: WriteGrant,
): Promise<void> {
  const shards = claims.map((claim) => claim.shard);
  const batches = batchesById<BillingRef & { lastAdjustment: number }>(
    (after, limit) => sql`
    select id, shard, workspace_id, external_meter_id, last_adjustment from billing_records
    where shard = any(${shards}) and last_adjustment > 0 and id > ${after} order by id limit ${limit}`,
  );
  for await (const records of batches) {
    const { balances, corrupt } = await findBalances(redis, records, (shard) => grant(shard).fence);
    const applied = new Map(balances.map(({ billing, adjustment }) => [billing.id, adjustment]));
    for (const { billing } of corrupt) applied.set(billing.id, Infinity);
    const lost = records.filter((record) => (applied.get(record.id) ?? 0) < record.lastAdjustment);
    if (lost.length === 0) continue;
    // Dated back, so that the sweeper applies them at once.
    await sql`
      insert into changes (kind, entity_id, shard, created_at)
      select 'adjustment', a.id, lost.shard, now() - interval '1 minute'
      from unnest(${lost.map((record) => record.id)}::text[], ${lost.map((record) => record.shard)}::smallint[],
                  ${lost.map((record) => record.lastAdjustment)}::int[],
                  ${lost.map((record) => applied.get(record.id) ?? 0)}::int[]) as lost (billing_id, shard, number, applied)
      join adjustments a on a.billing_id = lost.billing_id
        and (a.number = lost.number or a.before_micros < 0 and a.number > lost.applied)
      order by a.billing_id, a.number`;
  }
}
