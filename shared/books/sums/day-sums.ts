import { inChunks, IS_USAGE } from '../../stores/clickhouse.ts';

// What the queries on days of the books share: events as lines of booked_days, and records with their open days.

/** The line of booked_days that an event belongs to, and its epoch and number there. */
export const lineOfEvent = `
  if(kind = 'adjustment', 'adjustment', 'verification') as line,
  if(kind = 'adjustment', 0, epoch) as line_epoch,
  if(kind = 'adjustment', number, seq) as line_number`;

/** The columns of usage_events that `eventAsLine` and `sumsOfLine` need besides those of `lineOfEvent`. */
export const columnsOfEvent =
  'kind, epoch, seq, number, cost_micros, used_micros, held_micros, hold_micros, classes, time';

/** An event as a line that has it alone: for a select of `columnsOfEvent` and `lineOfEvent` from usage_events. */
export const eventAsLine = {
  cost_micros: `if(${IS_USAGE}, cost_micros, 0)`,
  numbers: '1',
  first_number: 'line_number',
  last_number: 'line_number',
  balance: '(epoch, seq, number, used_micros)',
  held_micros: 'held_micros',
  held_change: `multiIf(kind in ('hold', 'correction'), hold_micros, kind in ('capture', 'release'), -hold_micros, 0)`,
  classes: `((if(empty(classes), [(toUInt32(1), if(${IS_USAGE}, cost_micros, 0), 0, 0)], classes) as changes).1, changes.2, changes.3, changes.4)`,
  last_ms: 'toUnixTimestamp64Milli(time)',
  has_holds: `kind in ('hold', 'capture', 'release', 'extension', 'correction')`,
} as const;

type LineColumns = Record<keyof typeof eventAsLine, string>;

/** The epoch, sequence number and number of adjustment of a balance as one integer: ClickHouse takes ten times as long to compare tuples. */
export function placeOf(balance: string): string {
  return `bitShiftLeft(toUInt128((${balance}).1), 96) + bitShiftLeft(toUInt128((${balance}).2), 32) + (${balance}).3`;
}

/** How lines add up to one, given their columns and where the place of each is. */
function sumsOf(line: LineColumns, place: string): LineColumns {
  const last = `max(${place})`;
  return {
    cost_micros: `sum(${line.cost_micros})`,
    numbers: `sum(${line.numbers})`,
    first_number: `min(${line.first_number})`,
    last_number: `max(${line.last_number})`,
    balance: `(toUInt32(bitShiftRight(${last}, 96)), toUInt64(bitShiftRight(${last}, 32)), toUInt32(${last}), argMax((${line.balance}).4, ${place}))`,
    held_micros: `argMax(${line.held_micros}, ${place})`,
    held_change: `sum(${line.held_change})`,
    classes: `sumMap(${line.classes})`,
    last_ms: `max(${line.last_ms})`,
    has_holds: `toBool(max(${line.has_holds}))`,
  };
}

/** How the columns of a line sum up its events, and how those of several lines add up, which have a column `place`. */
export const sumsOfLine = sumsOf(eventAsLine, placeOf(eventAsLine.balance));
export const sumsOfLines = sumsOf(
  Object.fromEntries(Object.keys(eventAsLine).map((name) => [name, name])) as LineColumns,
  'place',
);

/** A record, and the days of it that are summed from their events. */
export type WithOpenDays = RecordRef & { openDays: string[] };

/** A record as its events are found by: the table's key begins with the workspace. */
export type RecordRef = { id: string; workspaceId: string };

/** The table of records with their open days that `openDayParams` gives, to stand behind a `with`. */
export const openDaysTable = `open_days as (
  select {workspaceIds:Array(String)}[open.1] as of_workspace, open.2 as of_day, {ids:Array(String)}[open.1] as of_record
  from (select arrayJoin(arrayZip({openOf:Array(UInt16)}, {openDays:Array(Date)})) as open))`;

/** Whether an event is of an open day, in the order of the table's key. */
export const IS_OPEN = '(workspace_id, day, billing_id) in (select of_workspace, of_day, of_record from open_days)';

/** Whether a row of booked_days or usage_days is of another day. */
export const IS_OVER = '(billing_id, day) not in (select of_record, of_day from open_days)';

/** The parameters of `openDaysTable`, with `ids`. */
export function openDayParams(records: WithOpenDays[]) {
  const open = records.flatMap(({ openDays }, i) => openDays.map((day) => ({ of: i + 1, day })));
  return {
    ids: records.map(({ id }) => id),
    workspaceIds: records.map(({ workspaceId }) => workspaceId),
    openOf: open.map(({ of }) => of),
    openDays: open.map(({ day }) => day),
  };
}

// An id takes 34 bytes of a parameter, and counts more: a query shall end in time, and so read some 1,000 records at most.
const BYTES_PER_RECORD = 48;
const BYTES_PER_NUMBER = 17;

/** Chunks of records that the parameters of one query hold; `sizeOf` counts the longest list of a record. */
export function inGroups<Item>(items: Iterable<Item>, sizeOf: (item: Item) => number): Item[][] {
  return inChunks(items, (item) => Math.max(BYTES_PER_RECORD, sizeOf(item) * BYTES_PER_NUMBER));
}
