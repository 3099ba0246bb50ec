import { readRows, type Books } from '../../stores/clickhouse.ts';
import type { Query } from '../../stores/postgres.ts';
import type { Balance } from '../balances.ts';
import {
  eventAsLine,
  inGroups,
  IS_OPEN,
  IS_OVER,
  lineOfEvent,
  openDayParams,
  openDaysTable,
  placeOf,
  sumsOfLines as sums,
  type RecordRef,
  type WithOpenDays,
} from './day-sums.ts';
import { markedDays } from './marked-days.ts';

/**
 * Some events of one epoch of a record, or some of its adjustments. `heldMicros` is what they added to the reserved credits, less what
 * they took; `last` the highest of their numbers.
 */
export type Sums = { micros: number; heldMicros: number; numbers: number; last: number };

/** What lines did to a class of credits. */
export type ClassSums = { usedMicros: number; heldMicros: number; expiredMicros: number };

/**
 * What the books have of a record's events, beside what its balance in Redis says. "Own" are those of earlier epochs, and those that
 * Redis counted: their number is at most the last one that Redis has. "Ahead" are those that Redis should have counted before the
 * balance was read, and has not.
 */
export type BookedLines = { own: Sums; ahead: Sums };

/** What the books have of a billing record. */
export type BookedRecord = {
  /** All lines of an epoch but adjustments; `lastNumber` is the highest that an event has. */
  epochs: (BookedLines & { epoch: number; lastNumber: number })[];
  adjustments: BookedLines;
  /** The used micro-credits after the last own event; undefined without an event. */
  lastMicros: number | undefined;
  /** The reserved micro-credits after that event. */
  lastHeldMicros: number;
  /** What own events did to classes of credits, by their numbers. */
  classes: Map<number, ClassSums>;
  /** The time of the last of these events; 0 without one. */
  lastMs: number;
  /** Days with lines of holds. */
  holdDays: string[];
  /** Days that were summed from their events; all others from booked_days. */
  openDays: string[];
};

/**
 * A record to read, and what Redis has counted of it; without that all that the books have is its own. Sums of days take a day whole, so
 * one with adjustments on both sides of the last counted one is to be among `daysByEvents`.
 */
export type Asked = RecordRef & {
  counted?: Pick<Balance, 'epoch' | 'sequences' | 'adjustment' | 'atMs'>;
  daysByEvents?: string[];
};

const PAGE_SECONDS = 10;
const RECORD_SECONDS = 25;
/** Of a record of which everything is counted. */
export const ALL_EPOCHS = 2 ** 32 - 1;
const ALL_ADJUSTMENTS = 2 ** 32 - 1;

/**
 * Reads what the books have of some records, by record. It costs days, not events: days that are over come from
 * booked_days, and only the events of marked days are read. Events that came after a balance was read are left out.
 */
export async function readBooked(
  { sql, books }: { sql: Query; books: Books },
  asked: Asked[],
): Promise<Map<string, BookedRecord>> {
  const found = new Map<string, BookedRecord>();
  // Read the marks before the sums: if a mark is cleared in between, its day is summed from the events without need.
  const ids = asked.map(({ id }) => id);
  const marks = await markedDays(sql, ids);
  const records = asked.map((one) => {
    const openDays = [...new Set([...(marks.get(one.id) ?? []), ...(one.daysByEvents ?? [])])];
    return { ...one, openDays };
  });
  for (const some of inGroups(records, ({ openDays }) => openDays.length)) {
    const byRecord = Map.groupBy(await queryLines(books, some), ({ billingId }) => billingId);
    for (const { id, openDays } of some) found.set(id, recordOf(byRecord.get(id) ?? [], openDays));
  }
  return found;
}

/** How many lines and adjustments the books have of a record that its balance has not counted: it was lost, or went back. */
export function behindBooks(balance: Balance, { epochs, adjustments }: BookedRecord): number {
  const earlier = epochs.filter(({ epoch }) => epoch < balance.epoch);
  return Math.max(0, sum(earlier.map(({ own }) => own.numbers)) - countedEarlier(balance)) + adjustments.ahead.numbers;
}

/** What the books have in all beside a balance; `isComplete`: they have each line that it has counted, `isAhead`: and others. */
export function compareSums(balance: Balance, { epochs, adjustments }: BookedRecord) {
  const lines = [...epochs, adjustments].flatMap(({ own, ahead }) => [own, ahead]);
  const counted = countedEarlier(balance) + (balance.sequences.get(balance.epoch) ?? 0);
  const numbers = sum(epochs.map(({ own }) => own.numbers));
  return {
    bookedMicros: sum(lines.map(({ micros }) => micros)),
    bookedHeldMicros: sum(lines.map((line) => line.heldMicros)),
    lacksLines: numbers < counted,
    isComplete: numbers === counted && adjustments.own.numbers === balance.adjustment,
    isAhead: epochs.some(({ ahead }) => ahead.numbers > 0),
  };
}

/**
 * Whether the books have just the lines and sums that a balance has counted, and the last of them shows another one: of adjustments that
 * were applied again, the books keep the line of the first time.
 */
export function showsAnother(balance: Balance, booked: BookedRecord): boolean {
  const { bookedMicros, bookedHeldMicros, isComplete, isAhead } = compareSums(balance, booked);
  const { usedMicros, heldMicros = 0 } = balance;
  const isSame = bookedMicros === usedMicros && bookedHeldMicros === heldMicros;
  return isComplete && !isAhead && isSame && (booked.lastMicros ?? 0) !== usedMicros;
}

/** How many lines of earlier epochs a balance has counted. */
export function countedEarlier({ epoch, counted, sequences }: Balance): number {
  return counted + sum([...sequences].filter(([earlier]) => earlier < epoch).map(([, number]) => number));
}

/** Adds up numbers. */
export function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** Events that Redis counted, or should have counted before its balance was read; and those from after that. */
type Part = 'own' | 'ahead' | 'newer';
/** One part of one epoch of a record, or of its adjustments. */
type Line = {
  billingId: string;
  line: 'verification' | 'adjustment';
  epoch: number;
  part: Part;
  sums: Sums;
  /** Where its last event is, and the balance after it. */
  last: { place: bigint; micros: number; heldMicros: number };
  classes: [number: number, ...ClassMicros][];
  lastMs: number;
  holdDays: string[];
};
type ClassMicros = [used: number, held: number, expired: number];

async function queryLines(books: Books, asked: (Asked & WithOpenDays)[]): Promise<Line[]> {
  const known = asked.map(({ counted }) => ({
    epoch: counted?.epoch ?? ALL_EPOCHS,
    sequence: counted?.sequences.get(counted.epoch) ?? 0,
    adjustment: counted?.adjustment ?? ALL_ADJUSTMENTS,
    atMs: counted?.atMs ?? 0,
  }));
  const params = {
    ...openDayParams(asked),
    epochs: known.map(({ epoch }) => epoch),
    sequences: known.map(({ sequence }) => sequence),
    adjustments: known.map(({ adjustment }) => adjustment),
    readAt: known.map(({ atMs }) => atMs),
  };
  // The server ends what nobody waits for. A page that is too slow is read in halves; a record alone has longer.
  const seconds = asked.length > 1 ? PAGE_SECONDS : RECORD_SECONDS;
  const rows = await readRows<Row>(books, LINES, params, { max_execution_time: seconds });
  return rows.map(([billingId, line, epoch, part, numbers, last, [names, ...ofClasses], lastMs, holdDays]) => {
    const [micros, heldMicros, count, lastNumber] = numbers.map(Number) as SumNumbers;
    const [place, ...balance] = last;
    return {
      billingId,
      line,
      epoch,
      part,
      sums: { micros, heldMicros, numbers: count, last: lastNumber },
      last: { place: BigInt(place), micros: Number(balance[0]), heldMicros: Number(balance[1]) },
      classes: names.map((name, i) => [name, ...(ofClasses.map((micros) => Number(micros[i])) as ClassMicros)]),
      lastMs: Number(lastMs),
      holdDays,
    };
  });
}

type SumNumbers = [micros: number, heldMicros: number, count: number, last: number];
type Row = [
  ...[billingId: string, line: Line['line'], epoch: number, part: Part, sums: string[]],
  last: [place: string, micros: string, heldMicros: string],
  ...[classes: [numbers: number[], ...micros: string[][]], lastMs: string, holdDays: string[]],
];

// An event is a line that has it alone, so events of open days and the sums of all others are lines alike.
const LINES = `
  with ${openDaysTable},
    asked as (
      select one.1 as asked_id, one.2 as now_epoch, one.3 as known_sequence, one.4 as known_adjustment, one.5 as read_at_ms
      from (select arrayJoin(arrayZip({ids:Array(String)}, {epochs:Array(UInt32)}, {sequences:Array(UInt64)},
        {adjustments:Array(UInt32)}, {readAt:Array(UInt64)})) as one))
  select billing_id, line, line_epoch,
    multiIf(line = 'verification' and line_epoch < now_epoch, 'own', line_epoch > now_epoch, 'newer',
            last_number <= if(line = 'adjustment', known_adjustment, known_sequence), 'own',
            is_over or at_ms < read_at_ms, 'ahead', 'newer') as part,
    (${sums.cost_micros}, ${sums.held_change}, ${sums.numbers}, ${sums.last_number}),
    (max(place), argMax(balance.4, place), ${sums.held_micros}),
    ${sums.classes}, ${sums.last_ms}, groupUniqArrayIf(day, has_holds)
  from (
    select billing_id, day, toString(line) as line, epoch as line_epoch, last_number as line_number, ${placeOf('balance')} as place, true as is_over, 0 as at_ms,
      ${Object.keys(eventAsLine).join(', ')}
    from booked_days final
    where billing_id in {ids:Array(String)} and ${IS_OVER}
    union all
    select billing_id, day, ${lineOfEvent}, ${placeOf(eventAsLine.balance)}, false, toUnixTimestamp64Milli(time), ${Object.values(eventAsLine).join(', ')}
    from usage_events final
    where ${IS_OPEN}
  ) as lines
  any left join asked on asked_id = billing_id
  group by billing_id, line, line_epoch, part`;

function recordOf(lines: Line[], openDays: string[]): BookedRecord {
  const counted = lines.filter(({ part }) => part !== 'newer');
  const verified = counted.filter(({ line }) => line === 'verification');
  const ofEpochs = Map.groupBy(verified, ({ epoch }) => epoch);
  const known = counted.filter(({ part }) => part === 'own');
  const last = known
    .map((line) => line.last)
    .reduce<Line['last'] | undefined>((a, b) => (a && a.place > b.place ? a : b), undefined);
  const classes = new Map<number, ClassSums>();
  for (const [number, used, held, expired] of known.flatMap((line) => line.classes)) {
    const { usedMicros, heldMicros, expiredMicros } = classes.get(number) ?? NO_CLASS;
    classes.set(number, {
      usedMicros: usedMicros + used,
      heldMicros: heldMicros + held,
      expiredMicros: expiredMicros + expired,
    });
  }
  return {
    epochs: [...ofEpochs].map(([epoch, ofEpoch]) => ({
      epoch,
      ...partsOf(ofEpoch),
      lastNumber: Math.max(...ofEpoch.map((line) => line.sums.last)),
    })),
    adjustments: partsOf(counted.filter(({ line }) => line === 'adjustment')),
    lastMicros: last?.micros,
    lastHeldMicros: last?.heldMicros ?? 0,
    classes,
    lastMs: Math.max(0, ...known.map(({ lastMs }) => lastMs)),
    holdDays: [...new Set(lines.flatMap(({ holdDays }) => holdDays))],
    openDays,
  };
}

const NO_CLASS: ClassSums = { usedMicros: 0, heldMicros: 0, expiredMicros: 0 };
const NOTHING: Sums = { micros: 0, heldMicros: 0, numbers: 0, last: 0 };

function partsOf(lines: Line[]): BookedLines {
  const of = (part: Part) => lines.find((line) => line.part === part)?.sums ?? NOTHING;
  return { own: of('own'), ahead: of('ahead') };
}
