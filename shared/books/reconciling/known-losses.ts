import { eachOf, type Query } from '../../stores/postgres.ts';
import { chunks } from '../../values/chunks.ts';
import type { BillingRef } from '../billing-refs.ts';
import type { MissingNumbers } from './missing-numbers.ts';

/** A loss of a record. */
export type Loss = { billing: BillingRef; loss: MissingNumbers };

const LOSSES_AT_ONCE = 1_000;

/** Reads the losses of some records that were found before, by record, in the order of epochs and numbers. */
export async function readKnownLosses(sql: Query, ids: string[]): Promise<Map<string, MissingNumbers[]>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<KnownLoss[]>`
    select * from usage_losses where billing_id = any(${eachOf(sql, ids)}) and is_whole
    order by billing_id, epoch, after_seq`;
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
  const found = records.flatMap(({ billing, losses }) => losses.map((loss): Loss => ({ billing, loss })));
  const news: Loss[] = [];
  for (const some of chunks(found, LOSSES_AT_ONCE)) {
    const grown = new Set(await storeSome(sql, some));
    news.push(...some.filter((one) => grown.has(nameOf(one))));
  }
  const known = new Set(found.map(nameOf));
  const kept = await readKnownLosses(
    sql,
    records.map(({ billing }) => billing.id),
  );
  const gone = records.flatMap(({ billing }) =>
    (kept.get(billing.id) ?? []).map((loss) => ({ billing, loss })).filter((one) => !known.has(nameOf(one))),
  );
  for (const some of chunks(gone, LOSSES_AT_ONCE)) await removeSome(sql, some);
  return news;
}

type KnownLoss = {
  billingId: string;
  epoch: number;
  afterSeq: number;
  events: number;
  amountMicros: number;
  afterEvent: string | null;
  beforeSeq: number | null;
  beforeEvent: string | null;
  isPriced: boolean;
};

function lossOf(row: KnownLoss): MissingNumbers {
  return {
    epoch: row.epoch,
    afterSequence: row.afterSeq,
    afterEvent: row.afterEvent ?? undefined,
    beforeSequence: row.beforeSeq ?? undefined,
    beforeEvent: row.beforeEvent ?? undefined,
    events: row.events,
    micros: row.isPriced ? row.amountMicros : undefined,
  };
}

function nameOf({ billing, loss: { epoch, afterSequence } }: Loss): string {
  return `${billing.id} ${epoch} ${afterSequence}`;
}

/** Stores losses; gives the names of those that were not known, or not with so many events. */
async function storeSome(sql: Query, some: Loss[]): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    with found as (
      select * from unnest(
        ${some.map(({ billing }) => billing.id)}::text[], ${some.map(({ loss }) => loss.epoch)}::bigint[],
        ${some.map(({ loss }) => loss.afterSequence)}::bigint[], ${some.map(({ loss }) => loss.events)}::bigint[],
        ${some.map(({ loss }) => loss.micros ?? null)}::bigint[],
        ${some.map(({ loss }) => loss.afterEvent ?? null)}::text[], ${some.map(({ loss }) => loss.beforeSequence ?? null)}::bigint[],
        ${some.map(({ loss }) => loss.beforeEvent ?? null)}::text[]
      ) as one (billing_id, epoch, after_seq, events, amount_micros, after_event, before_seq, before_event)
    ), known as (
      select found.*, coalesce(old.events, 0) as old_events
      from found left join usage_losses old using (billing_id, epoch, after_seq)
    ), stored as (
      insert into usage_losses as kept
        (billing_id, epoch, after_seq, events, amount_micros, is_priced, after_event, before_seq, before_event, is_whole)
      select billing_id, epoch, after_seq, events, coalesce(amount_micros, 0), amount_micros is not null,
        after_event, before_seq, before_event, true
      from known
      on conflict (billing_id, epoch, after_seq) do update set
        events = excluded.events, amount_micros = excluded.amount_micros, is_priced = excluded.is_priced,
        after_event = excluded.after_event, before_seq = excluded.before_seq, before_event = excluded.before_event,
        is_whole = true, found_at = case when kept.events < excluded.events then now() else kept.found_at end
    )
    select billing_id || ' ' || epoch || ' ' || after_seq as name from known where old_events < events`;
  return rows.map(({ name }) => name);
}

async function removeSome(sql: Query, some: Loss[]): Promise<void> {
  await sql`
    delete from usage_losses
    where (billing_id, epoch, after_seq) in (
      select * from unnest(
        ${some.map(({ billing }) => billing.id)}::text[], ${some.map(({ loss }) => loss.epoch)}::bigint[],
        ${some.map(({ loss }) => loss.afterSequence)}::bigint[]))`;
}
