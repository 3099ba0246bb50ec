import { inChunks } from '../stores/clickhouse.ts';

// What the queries on days of the books share: events as lines of booked_days, and records with their open days.

/** The line of booked_days that an event belongs to, and its epoch and number there. */
export const lineOfEvent = `
  if(kind = 'adjustment', 'adjustment', 'verification') as line,
  if(kind = 'adjustment', 0, epoch) as line_epoch,
  if(kind = 'adjustment', number, seq) as line_number`;

/** How the columns of a line sum up its events: for a select from usage_events and `lineOfEvent`. */
export const sumsOfLine = {
  events: `countIf(kind in ('verification', 'adjustment'))`,
  cost_micros: `sumIf(cost_micros, kind in ('verification', 'adjustment'))`,
  numbers: `countIf(kind != 'witness')`,
  first_number: `minIf(line_number, kind != 'witness')`,
  last_number: `maxIf(line_number, kind != 'witness')`,
  last_witness: `maxIf(seq, kind = 'witness')`,
  balance: `maxIf((epoch, seq, number, used_micros), kind != 'witness')`,
} as const;

/** A record, and the days of it that are summed from their events. */
export type WithOpenDays = { id: string; openDays: string[] };

/** The table of (record, open day) that `openDayParams` gives, to stand behind a `with`. */
export const openDaysTable = `open_days as (
  select {ids:Array(String)}[open.1], open.2
  from (select arrayJoin(arrayZip({openOf:Array(UInt16)}, {openDays:Array(Date)})) as open))`;

/** The parameters of `openDaysTable`, with `ids`. */
export function openDayParams(records: WithOpenDays[]) {
  const open = records.flatMap(({ openDays }, i) => openDays.map((day) => ({ of: i + 1, day })));
  return { ids: records.map(({ id }) => id), openOf: open.map(({ of }) => of), openDays: open.map(({ day }) => day) };
}

// An id takes 34 bytes of a parameter, and counts more: a query shall end in time, and so read some 1,000 records at most.
const BYTES_PER_RECORD = 48;
const BYTES_PER_NUMBER = 17;

/** Chunks of records that the parameters of one query hold; `sizeOf` counts the longest list of a record. */
export function inGroups<Item>(items: Iterable<Item>, sizeOf: (item: Item) => number): Item[][] {
  return inChunks(items, (item) => Math.max(BYTES_PER_RECORD, sizeOf(item) * BYTES_PER_NUMBER));
}
