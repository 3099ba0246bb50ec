import { eachOf, type Query, type Sql } from '../../stores/postgres.ts';
import { chunks } from '../../values/chunks.ts';
import type { BillingRef } from '../billing-refs.ts';

/** A note that a record's balance may lack what the books have. Its mark tells whether it was noted again since. */
export type UnsettledRecord = BillingRef & { mark: number };

const NOTES_AT_ONCE = 1_000;
// Who fails, or dies with it in its hands, holds up a record for so long.
const AGAIN_AFTER_SECONDS = 5;

/**
 * Notes records as unsettled. Noting again changes the mark: a record that is being settled is then looked at once more. One that has
 * failed keeps its pause.
 */
export async function noteUnsettled(sql: Query, billingIds: string[]): Promise<void> {
  for (const some of chunks(billingIds, NOTES_AT_ONCE)) {
    // Always in one order, so that two processes never wait for each other.
    await sql`
      insert into unsettled_records as known (billing_id, shard)
      select id, shard from billing_records
      where id = any(${eachOf(sql, some)})
      order by id
      on conflict (billing_id) do update set
        mark = nextval('unsettled_records_seq'),
        next_attempt_at = case when known.attempts < 2 then now() else known.next_attempt_at end`;
  }
}

/**
 * Takes notes of records in these shards that are due, those that wait longest first. They are due again some seconds later, unless they
 * are removed; should two processes settle the same record, it does no harm.
 */
export async function takeUnsettled(sql: Query, shards: number[], limit: number): Promise<UnsettledRecord[]> {
  return sql<UnsettledRecord[]>`
    with taken as (
      update unsettled_records
      set attempts = attempts + 1, next_attempt_at = now() + make_interval(secs => ${AGAIN_AFTER_SECONDS})
      where billing_id = any(array(
        select billing_id from unsettled_records
        where next_attempt_at <= now() and shard = any(${shards})
        order by next_attempt_at limit ${limit} for update skip locked
      ))
      returning billing_id, mark
    )
    select b.id, b.shard, b.workspace_id, b.external_meter_id, taken.mark
    from taken cross join lateral (select * from billing_records where id = taken.billing_id limit 1) as b`;
}

/** Removes the notes of settled records, but for those that were noted again meanwhile. */
export async function removeSettled(sql: Query, settled: UnsettledRecord[]): Promise<void> {
  if (settled.length === 0) return;
  const ids = settled.map(({ id }) => id);
  await sql`
    delete from unsettled_records
    where billing_id = any(${eachOf(sql, ids)})
      and (billing_id, mark) in (select * from unnest(${ids}::text[], ${settled.map(({ mark }) => mark)}::bigint[]))`;
}

/** Whether a note is due. */
export function someUnsettled(sql: Sql) {
  return sql`exists (select from unsettled_records where next_attempt_at <= now())`;
}

/** How many records wait, and how many of them were tried more than once. */
export async function countUnsettled(sql: Query): Promise<{ waiting: number; failing: number }> {
  const [row] = await sql<[{ waiting: number; failing: number }]>`
    select count(*) as waiting, count(*) filter (where attempts > 1) as failing from unsettled_records`;
  return row;
}
