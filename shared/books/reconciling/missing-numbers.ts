import { readRows, type Books } from '../../stores/clickhouse.ts';
import type { Query } from '../../stores/postgres.ts';
import type { Balance } from '../balances.ts';
import type { BookedRecord } from '../sums/booked.ts';

/** Consecutive sequence numbers of one epoch of a billing record that no event in the books has. */
export type MissingNumbers = {
  epoch: number;
  /** The event before them (undefined at the beginning of the epoch), and the one after (undefined at its end). */
  afterSequence: number;
  afterEvent: string | undefined;
  beforeSequence: number | undefined;
  beforeEvent: string | undefined;
  events: number;
  /** What they cost together: the difference of the balances before and after them, where both are known. */
  micros: number | undefined;
};

// Of more than these, somebody has to be told that there are many and not where each is.
/** Most gaps that are found in one record. */
export const MAX_GAPS = 1_000;

/** Finds the missing sequence numbers of a record, in order, up to the last ones that Redis has: at most 1,000 gaps. */
export async function findMissingNumbers(
  books: Books,
  balance: Balance,
  { openDays, epochs }: BookedRecord,
): Promise<MissingNumbers[]> {
  const { billing, sequences, usedMicros } = balance;
  const lastBooked = new Map(epochs.map(({ epoch, lastNumber }) => [epoch, lastNumber]));
  const ends = [...sequences].filter(([epoch, last]) => last > (lastBooked.get(epoch) ?? 0));
  const rows = await readRows<Row>(books, GAPS, {
    workspaceId: billing.workspaceId,
    billingId: billing.id,
    openDays,
    endEpochs: ends.map(([epoch]) => epoch),
    endNumbers: ends.map(([, last]) => last + 1),
    most: MAX_GAPS,
  });
  const newest = Math.max(...sequences.keys());
  return rows.map(([afterEpoch, afterText, afterEvent, usedAfter, adjusted, epoch, sequence, event, usedBefore]) => {
    const after = afterEpoch === epoch ? Number(afterText) : 0;
    const isEnd = event === '';
    // Where the end of an epoch before is missing too, nobody knows what of the cost is whose.
    const isUnknown = after === 0 && ends.some(([before]) => before < epoch);
    // The balance after an epoch's last event is known for the newest epoch only.
    const isUnknownEnd = isEnd && (epoch !== newest || afterEvent === '');
    const micros = (isEnd ? usedMicros : Number(usedBefore)) - Number(usedAfter) - Number(adjusted);
    return {
      epoch,
      afterSequence: after,
      afterEvent: after > 0 ? afterEvent : undefined,
      beforeSequence: isEnd ? undefined : Number(sequence),
      beforeEvent: isEnd ? undefined : event,
      events: Number(sequence) - after - 1,
      micros: isUnknown || isUnknownEnd ? undefined : micros,
    };
  });
}

/** An event, and the one before it in the books, between which numbers are missing; the end of an epoch in Redis is an event without an id. */
type Row = [
  ...[afterEpoch: number, afterSequence: string, afterEvent: string, usedAfter: string, adjusted: string],
  ...[epoch: number, sequence: string, event: string, usedBefore: string],
];

// A day that is over is read where it lacks numbers itself or beside it, or ends an epoch; of all others its first and last number do. An
// adjustment has the sequence number of the event before it, on a day of its own.
const GAPS = `
  with one_record as (
    select * from usage_events final where workspace_id = {workspaceId:String} and billing_id = {billingId:String}),
  days_over as (
    select day, epoch, first_number, last_number,
      numbers < last_number - first_number + 1 or first_number != lagInFrame(last_number) over before + 1
        or leadInFrame(first_number) over next != last_number + 1 as is_read
    from (
      select * from booked_days final
      where billing_id = {billingId:String} and line = 'verification' and day not in {openDays:Array(Date)})
    window before as (partition by epoch order by first_number rows between 1 preceding and current row),
      next as (partition by epoch order by first_number rows between current row and 1 following)),
  lines as (
    select epoch, seq as first, seq as last, event_id, used_micros - cost_micros as used_before, used_micros as used_after
    from one_record
    where kind != 'adjustment' and (day in {openDays:Array(Date)} or day in (select day from days_over where is_read))
    union all
    select epoch, first_number, last_number, '', 0, 0 from days_over where not is_read
    union all
    select one.1, one.2, one.2, '', 0, 0
    from (select arrayJoin(arrayZip({endEpochs:Array(UInt32)}, {endNumbers:Array(UInt64)})) as one))
  select after_epoch, after_seq, after_event, after_used, adjusted, epoch, first, event_id, used_before
  from (
    select epoch, first, event_id, used_before, lagInFrame(epoch) over lines as after_epoch, lagInFrame(last) over lines as after_seq,
      lagInFrame(event_id) over lines as after_event, lagInFrame(used_after) over lines as after_used
    from lines window lines as (order by epoch, first rows between 1 preceding and current row)
  ) as gaps
  left join (
    select epoch as of_epoch, seq as of_seq, sum(cost_micros) as adjusted from one_record
    where key_id = '' and kind = 'adjustment' and day in (
      select arrayJoin({openDays:Array(Date)})
      union all select day from booked_days where billing_id = {billingId:String} and line = 'adjustment')
    group by epoch, seq) as adjustments on of_epoch = after_epoch and of_seq = after_seq
  where first > if(after_epoch = epoch, after_seq, 0) + 1
  order by epoch, first limit {most:UInt32}`;

/**
 * Stores all losses that a record has; gives those that are new, or more than they were known to be. A loss whose events have arrived
 * after all is one no more.
 */
export async function storeLosses(
  sql: Query,
  billingId: string,
  losses: MissingNumbers[],
): Promise<{ epoch: number; afterSequence: number; events: number; micros: number | null }[]> {
  return sql`
    with found as (
      select * from json_to_recordset(${JSON.stringify(losses)}::text::json)
        as one (epoch bigint, "afterSequence" bigint, events bigint, micros bigint)
    ), known as (
      select epoch, after_seq, events from usage_losses where billing_id = ${billingId}
    ), gone as (
      delete from usage_losses
      where billing_id = ${billingId} and (epoch, after_seq) not in (select epoch, "afterSequence" from found)
    ), stored as (
      insert into usage_losses as kept (billing_id, epoch, after_seq, events, amount_micros)
      select ${billingId}, epoch, "afterSequence", events, micros from found
      on conflict (billing_id, epoch, after_seq) do update set
        events = excluded.events, amount_micros = excluded.amount_micros,
        found_at = case when kept.events < excluded.events then now() else kept.found_at end
    )
    select found.epoch, "afterSequence" as after_sequence, found.events, micros
    from found left join known on known.epoch = found.epoch and after_seq = "afterSequence"
    where coalesce(known.events, 0) < found.events order by 1, 2`;
}
