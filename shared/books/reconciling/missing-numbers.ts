import type { Books } from '../../stores/clickhouse.ts';
import type { Balance } from '../balances.ts';
import type { BookedRecord } from '../sums/booked-records.ts';
import {
  inGroups,
  IS_OPEN,
  IS_OVER,
  lineOfEvent,
  openDayParams,
  openDaysTable,
  sumsOfLine,
  type RecordRef,
} from '../sums/day-sums.ts';
import { readBoundaries, type Boundary, type Place } from './boundary-events.ts';

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

/** Numbers that nobody has: those above `after`, up to the one before `before` or, at the end, up to `upTo`. */
type Gap = { epoch: number; after: number; before: number | undefined; upTo: number; endsWith?: 'redis' };
type Day = { day: string; epoch: number; numbers: number; first: number; last: number };

// Of more than these, somebody has to be told that there are many and not where each is.
/** Most gaps that are found in one record. */
export const MAX_GAPS = 1_000;
const NUMBERS_PER_BUCKET = 65_536;
const BUCKETS_AT_ONCE = 16;

/**
 * Finds the missing sequence numbers of some records, in order, up to the last ones that Redis has; of a record at most
 * 1,000 gaps. It compares the first and last numbers of days, and reads the events of such days alone that lack some.
 */
export async function findMissingNumbers(books: Books, suspects: Suspect[]): Promise<Map<string, MissingNumbers[]>> {
  const found = new Map<string, MissingNumbers[]>();
  for (const some of inGroups(suspects, ({ booked }) => booked.openDays.length)) {
    const days = await readDays(books, some);
    for (const suspect of some) {
      const { id } = suspect.balance.billing;
      const ofRecord = days.get(id) ?? [];
      const gaps = await gapsOf(books, suspect, ofRecord);
      if (gaps.length > 0) found.set(id, await describe(books, suspect, ofRecord, gaps));
    }
  }
  return found;
}

/** The days on which records have numbers, by record, in the order of epochs and numbers. */
async function readDays(books: Books, suspects: Suspect[]): Promise<Map<string, Day[]>> {
  const answer = await books.client.query({
    query: `
      with ${openDaysTable}
      select billing_id, toString(day), epoch, numbers, first_number, last_number
      from booked_days final
      where billing_id in {ids:Array(String)} and line = 'verification' and ${IS_OVER}
      union all
      select billing_id, toString(day), line_epoch,
        ${sumsOfLine.numbers}, ${sumsOfLine.first_number}, ${sumsOfLine.last_number}
      from (
        select billing_id, day, kind, epoch, seq, number, ${lineOfEvent} from usage_events final
        where ${IS_OPEN} and kind != 'adjustment'
      )
      group by billing_id, day, line_epoch`,
    query_params: openDayParams(
      suspects.map(({ balance: { billing }, booked: { openDays } }) => ({
        id: billing.id,
        workspaceId: billing.workspaceId,
        openDays,
      })),
    ),
    format: 'JSONCompactEachRow',
  });
  type Row = [id: string, day: string, epoch: number, numbers: string, first: string, last: string];
  const rows = await answer.json<Row>();
  const byRecord = Map.groupBy(rows, ([id]) => id);
  const dayOf = ([, day, epoch, ...numbers]: Row): Day => {
    const [count, first, last] = numbers.map(Number) as [number, number, number];
    return { day, epoch, numbers: count, first, last };
  };
  const inOrder = (a: Day, b: Day) => a.epoch - b.epoch || a.first - b.first;
  return new Map([...byRecord].map(([id, ofRecord]) => [id, ofRecord.map(dayOf).toSorted(inOrder)]));
}

async function gapsOf(books: Books, { balance }: Suspect, days: Day[]): Promise<Gap[]> {
  const gaps: Gap[] = [];
  const byEpoch = Map.groupBy(days, ({ epoch }) => epoch);
  const epochs = [...new Set([...byEpoch.keys(), ...balance.sequences.keys()])].toSorted((a, b) => a - b);
  for (const epoch of epochs) {
    let last = 0;
    for (const span of spansOf(byEpoch.get(epoch) ?? [])) {
      if (span.first > last + 1) gaps.push({ epoch, after: last, before: span.first, upTo: span.first - 1 });
      if (span.numbers < span.last - span.first + 1 && gaps.length < MAX_GAPS)
        gaps.push(...(await gapsWithin(books, balance.billing, epoch, span)));
      last = span.last;
    }
    const inRedis = balance.sequences.get(epoch) ?? 0;
    if (inRedis > last) gaps.push({ epoch, after: last, before: undefined, upTo: inRedis, endsWith: 'redis' });
  }
  return gaps.slice(0, MAX_GAPS);
}

/** Days as spans of numbers that do not overlap: days overlap where Redis's clock went back over midnight. */
function spansOf(days: Day[]): (Day & { days: string[] })[] {
  const spans: (Day & { days: string[] })[] = [];
  for (const day of days) {
    const before = spans.at(-1);
    if (before && day.first <= before.last) {
      before.days.push(day.day);
      before.numbers += day.numbers;
      before.last = Math.max(before.last, day.last);
    } else spans.push({ ...day, days: [day.day] });
  }
  return spans;
}

/** Finds gaps within some days: first which stretches of 65,536 numbers lack some, then where. Its memory is bounded. */
async function gapsWithin(
  books: Books,
  { id: billingId, workspaceId }: RecordRef,
  epoch: number,
  { days }: { days: string[] },
): Promise<Gap[]> {
  const numbers = `select seq, intDiv(seq, ${NUMBERS_PER_BUCKET}) as bucket from usage_events final
    where workspace_id = {workspaceId:String} and day in {days:Array(Date)} and billing_id = {billingId:String} and epoch = {epoch:UInt32}
      and kind != 'adjustment'`;
  const query = async <Row>(text: string, params = {}) => {
    const query_params = { workspaceId, billingId, days, epoch, ...params };
    return (await books.client.query({ query: text, query_params, format: 'JSONCompactEachRow' })).json<Row>();
  };
  const buckets = await query<[bucket: string, count: string, first: string, last: string]>(
    `select bucket, count(), min(seq), max(seq) from (${numbers}) group by bucket order by bucket`,
  );
  const gaps: Gap[] = [];
  const add = (after: number, before: number) => gaps.push({ epoch, after, before, upTo: before - 1 });
  const lacking: number[] = [];
  for (const [i, [bucket, count, first, last]] of buckets.entries()) {
    const before = i === 0 ? undefined : Number(buckets[i - 1]![3]);
    if (before !== undefined && Number(first) > before + 1) add(before, Number(first));
    if (Number(count) < Number(last) - Number(first) + 1) lacking.push(Number(bucket));
  }
  for (let i = 0; i < lacking.length && gaps.length < MAX_GAPS; i += BUCKETS_AT_ONCE) {
    const rows = await query<[after: string, before: string]>(
      `select after, seq from (
         select bucket, seq, lagInFrame(seq, 1, seq) over lines as after, lagInFrame(bucket) over lines as bucket_before
         from (${numbers} and bucket in {buckets:Array(UInt64)})
         window lines as (order by seq rows between 1 preceding and current row)
       ) where bucket = bucket_before and seq > after + 1 order by seq limit {most:UInt32}`,
      { buckets: lacking.slice(i, i + BUCKETS_AT_ONCE), most: MAX_GAPS },
    );
    for (const [after, before] of rows) add(Number(after), Number(before));
  }
  return gaps.toSorted((a, b) => a.after - b.after);
}

/** The days on which events of these places can lie: those with their numbers, and open ones, for the sake of adjustments. */
function daysOf(places: Place[], days: Day[], openDays: string[]): string[] {
  const holds = ({ epoch, first, last }: Day) =>
    places.some((place) => place.epoch === epoch && first <= place.sequence && place.sequence <= last);
  return [...new Set([...openDays, ...days.filter(holds).map(({ day }) => day)])];
}

/** Adds to gaps the events around them, and what they cost. */
async function describe(
  books: Books,
  { balance, booked }: Suspect,
  days: Day[],
  gaps: Gap[],
): Promise<MissingNumbers[]> {
  const newest = Math.max(...balance.sequences.keys());
  // Not the last day in their order: where Redis's clock went back, a day that begins before it may end after it.
  const byLast = days.toSorted((a, b) => a.epoch - b.epoch || a.last - b.last);
  const lastBefore = (epoch: number) => byLast.findLast((day) => day.epoch < epoch);
  // Before an epoch's first number stands the last one of the epoch before.
  const startOf = ({ epoch, after }: Gap) => {
    if (after > 0) return { epoch, sequence: after };
    const last = lastBefore(epoch);
    return last && { epoch: last.epoch, sequence: last.last };
  };
  const endOf = ({ epoch, before, upTo, endsWith }: Gap) =>
    endsWith === 'redis' ? undefined : { epoch, sequence: before ?? upTo };
  const wanted = gaps.flatMap((gap) => [startOf(gap), endOf(gap)]).filter((one) => one !== undefined);
  const at = await readBoundaries(books, balance.billing, wanted, daysOf(wanted, days, booked.openDays));

  return gaps.map((gap) => {
    const start = startOf(gap);
    const after = start && at(start);
    const end = endOf(gap);
    const before = end && at(end);
    return {
      epoch: gap.epoch,
      afterSequence: gap.after,
      afterEvent: gap.after > 0 ? after?.eventId : undefined,
      beforeSequence: gap.before,
      beforeEvent: gap.before === undefined ? undefined : before?.eventId,
      events: gap.upTo - gap.after,
      micros: costOf(gap, after, before),
    };
  });

  function costOf(gap: Gap, after: Boundary | undefined, before: Boundary | undefined): number | undefined {
    // Where the end of an epoch before is missing too, nobody knows what of the cost is whose.
    const isEndBefore = ({ epoch, endsWith }: Gap) => endsWith !== undefined && epoch < gap.epoch;
    if (gap.after === 0 && gaps.some(isEndBefore)) return undefined;
    const from = after?.usedAfterMicros ?? 0;
    if (gap.endsWith !== 'redis') return before && before.usedBeforeMicros - from;
    // The balance after an epoch's last event is known for the newest epoch only.
    return gap.epoch === newest && after ? balance.usedMicros - from : undefined;
  }
}
