import type { Books } from '../../stores/clickhouse.ts';
import type { Balance } from '../balances.ts';
import {
  columnsOfEvent,
  IS_OPEN,
  IS_OVER,
  lineOfEvent,
  openDayParams,
  openDaysTable,
  sumsOfLine,
  type WithOpenDays,
} from './day-sums.ts';

/**
 * Some events of one epoch of a record, or some of its adjustments. Numbers without a gap: `numbers` = `last` - `first` + 1.
 * `heldMicros` is what they added to the reserved credits, less what they took.
 */
export type Sums = {
  events: number;
  micros: number;
  heldMicros: number;
  numbers: number;
  first: number;
  last: number;
};

/** The line of a turn: its place in the record, and the day that it is booked on. */
export type TurnPlace = { epoch: number; number: number; day: string };

/** A record to read, its days that are summed from their events, and what Redis has of it. */
export type Asked = WithOpenDays & { balance: Balance };

/**
 * Events that Redis counted, has lost, or should have counted; those from after its balance was read; and those of a day that is
 * partly one and partly another.
 */
export type Part = 'own' | 'late' | 'ahead' | 'newer' | 'split';
/** One part of one line of a record. */
export type Line = {
  billingId: string;
  line: 'verification' | 'adjustment';
  epoch: number;
  part: Part;
  sums: Sums;
  /** After its last event. */
  balance: [epoch: number, sequence: number, number: number, micros: number, heldMicros: number];
  /** The turn of the highest number. */
  lastTurn: TurnPlace | undefined;
  lastWitness: number;
  closedMicros: number;
  splitDays: string[];
};

const PAGE_SECONDS = 10;
const RECORD_SECONDS = 25;

/** Reads the lines of some records, part by part. */
export async function queryLines(books: Books, asked: Asked[]): Promise<Line[]> {
  const lines = asked.flatMap(({ balance: { sequences, adjustment } }, i) => [
    ...[...sequences].map(([epoch, number]) => ({ of: i + 1, line: 'verification', epoch, number })),
    { of: i + 1, line: 'adjustment', epoch: 0, number: adjustment },
  ]);
  // The join gives 0 for a line that is not known.
  const known = lines.filter(({ number }) => number > 0);
  const answer = await books.client.query({
    query: LINES,
    query_params: {
      ...openDayParams(asked),
      epochs: asked.map(({ balance }) => balance.epoch),
      times: asked.map(({ balance }) => balance.atMs),
      knownOf: known.map(({ of }) => of),
      knownLines: known.map(({ line }) => line),
      knownEpochs: known.map(({ epoch }) => epoch),
      knownNumbers: known.map(({ number }) => number),
    },
    // The server ends what nobody waits for. A page that is too slow is read in halves; a record alone has longer.
    clickhouse_settings: { max_execution_time: asked.length > 1 ? PAGE_SECONDS : RECORD_SECONDS },
    format: 'JSONCompactEachRow',
  });
  const rows = await answer.json<Row>();
  return rows.map(([billingId, line, epoch, part, numbers, balance, [turn, day], witness, closed, splitDays]) => {
    const [events, micros, heldMicros, count, first, last] = numbers.map(Number) as SumNumbers;
    return {
      billingId,
      line,
      epoch,
      part,
      sums: { events, micros, heldMicros, numbers: count, first, last },
      balance: balance.map(Number) as Line['balance'],
      lastTurn: Number(turn) === 0 ? undefined : { epoch, number: Number(turn), day },
      lastWitness: Number(witness),
      closedMicros: Number(closed),
      splitDays,
    };
  });
}

type SumNumbers = [events: number, micros: number, heldMicros: number, count: number, first: number, last: number];
type Row = [
  ...[billingId: string, line: Line['line'], epoch: number, part: Part, sums: string[]],
  ...[balance: (number | string)[], lastTurn: [number: string, day: string]],
  ...[lastWitness: string, closedMicros: string, splitDays: string[]],
];

const { has_holds: _, ...sums } = sumsOfLine;
const columns = Object.keys(sums).join(', ');
const sumsOfOpenDays = Object.values(sums).join(', ');

// `asked` has the records, `known` the last number that Redis has of each of their lines, `open_days` the days to be summed
// from their events.
const LINES = `
  with
    asked as (
      select asked.1 as asked_id, asked.2 as now_epoch, asked.3 as read_at_ms
      from (select arrayJoin(arrayZip({ids:Array(String)}, {epochs:Array(UInt32)}, {times:Array(UInt64)})) as asked)),
    known as (
      select {ids:Array(String)}[known.1] as known_id, known.2 as known_line, known.3 as known_epoch, known.4 as known_number
      from (select arrayJoin(arrayZip({knownOf:Array(UInt16)}, {knownLines:Array(String)},
                                      {knownEpochs:Array(UInt32)}, {knownNumbers:Array(UInt64)})) as known)),
    ${openDaysTable}
  select billing_id, line, line_epoch, part,
    (sum(events), sum(cost_micros), sum(held_change), sum(numbers), minIf(first_number, numbers > 0), max(last_number)),
    (max(balance).1, max(balance).2, max(balance).3, max(balance).4, argMax(held_micros, balance)),
    (max(last_turn), argMax(toString(day), last_turn)),
    max(last_witness), sumIf(cost_micros, is_over), groupUniqArrayIf(toString(day), part = 'split')
  from (
    select billing_id, day, toString(line) as line, epoch as line_epoch, ${columns}, true as is_over,
      multiIf(line_epoch > now_epoch, 'ahead', last_number <= known_number, 'own', first_number <= known_number, 'split',
              line_epoch = now_epoch, 'ahead', 'late') as part
    from booked_days final
    any left join asked on asked_id = billing_id
    any left join known on known_id = billing_id and known_line = toString(line) and known_epoch = epoch
    where billing_id in {ids:Array(String)} and ${IS_OVER}
    union all
    select billing_id, day, line, line_epoch, ${sumsOfOpenDays}, false, part
    from (
      select billing_id, day, ${columnsOfEvent},
        ${lineOfEvent},
        toUnixTimestamp64Milli(time) as at_ms,
        multiIf(line_epoch > now_epoch, 'ahead', line_number <= known_number, 'own',
                line = 'adjustment', if(read_at_ms > 0 and at_ms >= read_at_ms, 'newer', 'late'),
                line_epoch < now_epoch, 'late', at_ms < read_at_ms, 'ahead', 'newer') as part
      from usage_events final
      any left join asked on asked_id = billing_id
      any left join known on known_id = billing_id and known_line = line and known_epoch = line_epoch
      where ${IS_OPEN}
    )
    group by billing_id, day, line, line_epoch, part
  )
  group by billing_id, line, line_epoch, part`;
