import { readRows, type Books } from '../../stores/clickhouse.ts';
import type { Balance } from '../balances.ts';
import type { BookedRecord } from '../sums/booked.ts';
import { inGroups, IS_OPEN, IS_OVER, lineOfEvent, openDayParams, openDaysTable, sumsOfLine } from '../sums/day-sums.ts';

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

/** A record to look at, with its balance in Redis. */
export type Suspect = { balance: Balance; booked: BookedRecord };

/** The numbers of an epoch that a day has, or several days that overlap, which they do where Redis's clock went back over midnight. */
type Stretch = { days: string[]; epoch: number; numbers: number; first: number; last: number };

// Of more than these, somebody has to be told that there are many and not where each is.
/** Most gaps that are found in one record. */
export const MAX_GAPS = 1_000;

/**
 * Finds the missing sequence numbers of some records, in order, up to the last ones that Redis has; of a record at most
 * 1,000 gaps. It compares the first and last numbers of days, and reads the events of such days alone that lack some or lie beside
 * missing ones.
 */
export async function findMissingNumbers(books: Books, suspects: Suspect[]): Promise<Map<string, MissingNumbers[]>> {
  const found = new Map<string, MissingNumbers[]>();
  for (const some of inGroups(suspects, ({ booked }) => booked.openDays.length)) {
    const stretches = await readStretches(books, some);
    for (const suspect of some) {
      const { id } = suspect.balance.billing;
      const gaps = await gapsOf(books, suspect, stretches.get(id) ?? []);
      if (gaps.length > 0) found.set(id, gaps);
    }
  }
  return found;
}

/** The numbers that records have on their days, by record, in the order of epochs and numbers. */
async function readStretches(books: Books, suspects: Suspect[]): Promise<Map<string, Stretch[]>> {
  const records = suspects.map(({ balance: { billing }, booked: { openDays } }) => ({ ...billing, openDays }));
  const rows = await readRows<[id: string, day: string, epoch: number, ...numbers: string[]]>(
    books,
    `
      with ${openDaysTable}
      select billing_id, toString(day), epoch as of_epoch, numbers, first_number as first, last_number
      from booked_days final
      where billing_id in {ids:Array(String)} and line = 'verification' and ${IS_OVER}
      union all
      select billing_id, toString(day), line_epoch, ${sumsOfLine.numbers}, ${sumsOfLine.first_number}, ${sumsOfLine.last_number}
      from (
        select billing_id, day, kind, epoch, seq, number, ${lineOfEvent} from usage_events final
        where ${IS_OPEN} and kind != 'adjustment'
      )
      group by billing_id, day, line_epoch`,
    openDayParams(records),
  );
  const found = new Map<string, Stretch[]>();
  const inOrder = rows.toSorted((a, b) => a[2] - b[2] || Number(a[4]) - Number(b[4]));
  for (const [id, day, epoch, ...texts] of inOrder) {
    const [numbers, first, last] = texts.map(Number) as [number, number, number];
    const ofRecord = found.get(id) ?? [];
    found.set(id, ofRecord);
    const before = ofRecord.at(-1);
    if (before?.epoch === epoch && first <= before.last) {
      before.days.push(day);
      before.numbers += numbers;
      before.last = Math.max(before.last, last);
    } else ofRecord.push({ days: [day], epoch, numbers, first, last });
  }
  return found;
}

/** An event, and the one before it in the books, between which numbers are missing; the end of an epoch in Redis is an event without an id. */
type Row = [
  ...[afterEpoch: number, afterSequence: string, afterEvent: string, usedAfter: string, adjusted: string],
  ...[epoch: number, sequence: string, event: string, usedBefore: string],
];

async function gapsOf(books: Books, { balance, booked }: Suspect, stretches: Stretch[]): Promise<MissingNumbers[]> {
  const ends = [...balance.sequences].filter(([epoch, inRedis]) => inRedis > lastOf(stretches, epoch));
  const rows = await readRows<Row>(books, GAPS, {
    workspaceId: balance.billing.workspaceId,
    billingId: balance.billing.id,
    days: daysNearGaps(stretches, ends),
    openDays: booked.openDays,
    endEpochs: ends.map(([epoch]) => epoch),
    endNumbers: ends.map(([, inRedis]) => inRedis + 1),
    most: MAX_GAPS + stretches.length,
  });
  const newest = Math.max(...balance.sequences.keys());
  const gaps = rows.map((row): MissingNumbers => {
    const [afterEpoch, afterText, afterEvent, usedAfter, adjusted, epoch, sequence, event, usedBefore] = row;
    const after = afterEpoch === epoch ? Number(afterText) : 0;
    const isEnd = event === '';
    const from = Number(usedAfter) + Number(adjusted);
    // Where the end of an epoch before is missing too, nobody knows what of the cost is whose.
    const isUnknown = after === 0 && ends.some(([before]) => before < epoch);
    // The balance after an epoch's last event is known for the newest epoch only.
    const isUnknownEnd = isEnd && (epoch !== newest || afterEvent === '');
    return {
      epoch,
      afterSequence: after,
      afterEvent: after > 0 ? afterEvent : undefined,
      beforeSequence: isEnd ? undefined : Number(sequence),
      beforeEvent: isEnd ? undefined : event,
      events: Number(sequence) - after - 1,
      micros: isUnknown || isUnknownEnd ? undefined : (isEnd ? balance.usedMicros : Number(usedBefore)) - from,
    };
  });
  // Between days that were not read after each other there are others.
  const isRead = ({ epoch, afterSequence: after, events }: MissingNumbers) =>
    stretches.every((one) => one.epoch !== epoch || one.first <= after || one.first > after + events);
  return gaps.filter(isRead).slice(0, MAX_GAPS);
}

function lastOf(stretches: Stretch[], epoch: number): number {
  return stretches.findLast((one) => one.epoch === epoch)?.last ?? 0;
}

/** The days that lack numbers, or have the last ones before missing numbers, or the first ones after them. */
function daysNearGaps(stretches: Stretch[], ends: [epoch: number, inRedis: number][]): string[] {
  const near = stretches.filter((one, i) => {
    const [before, next] = [stretches[i - 1], stretches[i + 1]];
    const begins = one.epoch === before?.epoch ? before.last + 1 : 1;
    const isLast = next?.epoch !== one.epoch;
    // Its end is one of a gap at the end of the epoch, or before the first number of the next one.
    const endsBefore = isLast
      ? ends.some(([epoch]) => epoch >= one.epoch) || (next && next.first > 1)
      : next.first > one.last + 1;
    return one.numbers < one.last - one.first + 1 || one.first > begins || endsBefore;
  });
  return near.flatMap(({ days }) => days);
}

// An adjustment has the sequence number of the event before it, on a day of its own. Where one was applied again, the later epoch counts.
const GAPS = `
  with one_record as (
    select * from usage_events final where workspace_id = {workspaceId:String} and billing_id = {billingId:String}),
  events as (
    select epoch, seq, event_id, used_micros - cost_micros as used_before, used_micros as used_after
    from one_record where day in {days:Array(Date)} and kind != 'adjustment'
    union all
    select one.1, one.2, '', 0, 0
    from (select arrayJoin(arrayZip({endEpochs:Array(UInt32)}, {endNumbers:Array(UInt64)})) as one))
  select after_epoch, after_seq, after_event, after_used, adjusted, epoch, seq, event_id, used_before
  from (
    select epoch, seq, event_id, used_before, lagInFrame(epoch) over lines as after_epoch, lagInFrame(seq) over lines as after_seq,
      lagInFrame(event_id) over lines as after_event, lagInFrame(used_after) over lines as after_used
    from events window lines as (order by epoch, seq rows between 1 preceding and current row)
  ) as gaps
  left join (
    select epoch as of_epoch, seq as of_seq, sum(cost_micros) as adjusted from one_record
    where key_id = '' and kind = 'adjustment' and day in (
      select arrayJoin({openDays:Array(Date)})
      union all select day from booked_days where billing_id = {billingId:String} and line = 'adjustment')
    group by epoch, seq) as adjustments on of_epoch = after_epoch and of_seq = after_seq
  where seq > if(after_epoch = epoch, after_seq, 0) + 1
  order by epoch, seq limit {most:UInt32}`;
