import { eachOf, type Query } from '../../stores/postgres.ts';
import type { BillingRef } from '../billing-refs.ts';
import type { MissingNumbers } from './missing-numbers.ts';

/** A loss of a record. */
export type Loss = { billing: BillingRef; loss: MissingNumbers };

/** Reads the losses of some records that were found before, by record, in the order of epochs and numbers. */
export async function readKnownLosses(sql: Query, ids: string[]): Promise<Map<string, MissingNumbers[]>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<({ billingId: string } & MissingNumbers)[]>`
    select billing_id, epoch, after_seq as after_sequence, after_event, before_seq as before_sequence, before_event, events,
           amount_micros as micros
    from usage_losses where billing_id = any(${eachOf(sql, ids)}) order by billing_id, epoch, after_seq`;
  const byRecord = Map.groupBy(rows, ({ billingId }) => billingId);
  return new Map([...byRecord].map(([id, ofRecord]) => [id, ofRecord.map(lossOf)]));
}

/**
 * Stores the losses of some records, of each all that it has; gives those that are new, or more than they were known to be.
 * A loss whose events have arrived after all is one no more.
 */
export async function storeLosses(
  sql: Query,
  records: { billing: BillingRef; losses: MissingNumbers[] }[],
): Promise<Loss[]> {
  const news: Loss[] = [];
  for (const { billing, losses } of records) {
    const of = <Value>(read: (one: MissingNumbers) => Value): Value[] => losses.map(read);
    const grown = await sql<{ place: number }[]>`
      with found as (
        select * from unnest(
          ${of(({ epoch }) => epoch)}::bigint[], ${of(({ afterSequence }) => afterSequence)}::bigint[],
          ${of(({ events }) => events)}::bigint[], ${of(({ micros }) => micros ?? null)}::bigint[],
          ${of(({ afterEvent }) => afterEvent ?? null)}::text[], ${of(({ beforeSequence }) => beforeSequence ?? null)}::bigint[],
          ${of(({ beforeEvent }) => beforeEvent ?? null)}::text[]
        ) with ordinality as one (epoch, after_seq, events, amount_micros, after_event, before_seq, before_event, place)
      ), known as (
        select epoch, after_seq, events from usage_losses where billing_id = ${billing.id}
      ), gone as (
        delete from usage_losses
        where billing_id = ${billing.id} and (epoch, after_seq) not in (select epoch, after_seq from found)
      ), stored as (
        insert into usage_losses as kept
          (billing_id, epoch, after_seq, events, amount_micros, after_event, before_seq, before_event)
        select ${billing.id}, epoch, after_seq, events, amount_micros, after_event, before_seq, before_event from found
        on conflict (billing_id, epoch, after_seq) do update set
          events = excluded.events, amount_micros = excluded.amount_micros, after_event = excluded.after_event,
          before_seq = excluded.before_seq, before_event = excluded.before_event,
          found_at = case when kept.events < excluded.events then now() else kept.found_at end
      )
      select place::int from found left join known using (epoch, after_seq)
      where coalesce(known.events, 0) < found.events order by place`;
    news.push(...grown.map(({ place }) => ({ billing, loss: losses[place - 1]! })));
  }
  return news;
}

function lossOf(row: { billingId: string } & MissingNumbers): MissingNumbers {
  const fields = Object.entries(row).filter(([name]) => name !== 'billingId');
  // What Postgres does not have is null.
  return Object.fromEntries(fields.map(([name, value]) => [name, value ?? undefined])) as MissingNumbers;
}
