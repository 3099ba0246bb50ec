import { orGiveUp, type Query } from '../stores/postgres.ts';
import type { BillingRef } from './billing-refs.ts';

/** A note that a record's balance may lack what the books have. Its mark tells whether it was noted again since. */
export type UnsettledRecord = BillingRef & { mark: number; attempts: number };

const NOTES_AT_ONCE = 1_000;
// A process that dies holds up the records in its hands for this long.
const TAKEN_FOR_SECONDS = 5;
const FIRST_PAUSE_SECONDS = 1;
const LONGEST_PAUSE_SECONDS = 15;

/**
 * Notes records as unsettled. Noting again changes the mark alone: a record
 * that is being settled is then looked at once more, and one that fails keeps its pause.
 */
export async function noteUnsettled(sql: Query, billingIds: string[]): Promise<void> {
  for (let i = 0; i < billingIds.length; i += NOTES_AT_ONCE) {
    const some = billingIds.slice(i, i + NOTES_AT_ONCE);
    // Always in one order, so that two processes never wait for each other.
    await orGiveUp(sql`
      insert into unsettled_records as known (billing_id, shard)
      select id, shard from billing_records
      where id = any(${some})
      order by id
      on conflict (billing_id) do update set
        mark = nextval('unsettled_records_seq'),
        next_attempt_at = case when known.attempts = 0 then now() else known.next_attempt_at end`);
  }
}

/**
 * Takes notes of records in these shards that are due, those that wait longest first. For some seconds nobody else takes
 * them; should two processes settle the same record, it does no harm.
 */
export async function takeUnsettled(sql: Query, shards: number[], limit: number): Promise<UnsettledRecord[]> {
  return orGiveUp(sql<UnsettledRecord[]>`
    update unsettled_records u set next_attempt_at = now() + make_interval(secs => ${TAKEN_FOR_SECONDS})
    from (
      select billing_id from unsettled_records
      where next_attempt_at <= now() and shard = any(${shards})
      order by next_attempt_at, billing_id limit ${limit} for update skip locked
    ) as due join billing_records b on b.id = due.billing_id
    where u.billing_id = due.billing_id
    returning b.id, b.shard, b.workspace_id, b.external_meter_id, u.mark, u.attempts`);
}

/** Removes the notes of settled records, but for those that were noted again meanwhile. */
export async function removeSettled(sql: Query, settled: UnsettledRecord[]): Promise<void> {
  if (settled.length === 0) return;
  await orGiveUp(sql`
    delete from unsettled_records u
    using unnest(${settled.map(({ id }) => id)}::text[], ${settled.map(({ mark }) => mark)}::bigint[]) as done (id, mark)
    where u.billing_id = done.id and u.mark = done.mark`);
}

/** Sets aside records that failed alone, each for longer than the last time. */
export async function postpone(sql: Query, failed: UnsettledRecord[]): Promise<void> {
  if (failed.length === 0) return;
  await orGiveUp(sql`
    update unsettled_records set
      attempts = attempts + 1,
      next_attempt_at = now() + make_interval(
        secs => least(${LONGEST_PAUSE_SECONDS}::float8, ${FIRST_PAUSE_SECONDS} * 2 ^ least(attempts, 20)))
    where billing_id = any(${failed.map(({ id }) => id)})`);
}

/** How many records wait, and how many of them failed when they were last tried. */
export async function countUnsettled(sql: Query): Promise<{ waiting: number; failing: number }> {
  const [row] = await orGiveUp(sql<[{ waiting: number; failing: number }]>`
    select count(*) as waiting, count(*) filter (where attempts > 0) as failing from unsettled_records`);
  return row;
}
