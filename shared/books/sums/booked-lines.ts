import { inChunks, type Books } from '../../stores/clickhouse.ts';
import type { Balance } from '../balances.ts';
import { eventAsLine, lineOfEvent, sumsOfLines as sums, type WithOpenDays } from './day-sums.ts';

/**
 * Some events of one epoch of a record, or some of its adjustments. Numbers without a gap: `numbers` = `last` - `first` + 1.
 * `heldMicros` is what they added to the reserved credits, less what they took.
 */
export type Sums = {
  micros: number;
  heldMicros: number;
  numbers: number;
  first: number;
  last: number;
};

/** What lines did to a class of credits. */
export type ClassSums = { usedMicros: number; heldMicros: number; expiredMicros: number };

/** A record to read, its days that are summed from their events, and what Redis has of it. */
export type Asked = WithOpenDays & { balance: Balance };

/**
 * Events that Redis counted, or should have counted before its balance was read; those from after that; and those of a day that is
 * partly one and partly another.
 */
export type Part = 'own' | 'ahead' | 'newer' | 'split';
/** One part of one line of a record. */
export type Line = {
  billingId: string;
  line: 'verification' | 'adjustment';
  epoch: number;
  part: Part;
  sums: Sums;
  /** After its last event. */
  balance: [epoch: number, sequence: number, number: number, micros: number, heldMicros: number];
  classes: Map<number, ClassSums>;
  /** The time of its last event. */
  lastMs: number;
  /** Days with lines of holds. */
  holdDays: string[];
  closedMicros: number;
  splitDays: string[];
};

const PAGE_SECONDS = 10;
const RECORD_SECONDS = 25;

/** Chunks of records that one query reads. They are one text of it, in which nothing is escaped. */
export function inPages(asked: Asked[]): Asked[][] {
  let before = '';
  return inChunks([...Map.groupBy(asked, headOf).values()].flat(), (one) => {
    const head = headOf(one);
    const bytes = textOf(one).length + (head === before ? 0 : head.length);
    before = head;
    return bytes / 2;
  });
}

/** Reads the lines of some records, part by part. */
export async function queryLines(books: Books, asked: Asked[]): Promise<Line[]> {
  const together = [...Map.groupBy(asked, headOf)].map(([head, some]) => `[${head},[${some.map(textOf).join()}]]`);
  const answer = await books.client.query({
    query: LINES,
    query_params: { page: `[${together.join()}]` },
    // The server ends what nobody waits for. A page that is too slow is read in halves; a record alone has longer.
    clickhouse_settings: { max_execution_time: asked.length > 1 ? PAGE_SECONDS : RECORD_SECONDS },
    format: 'JSONCompactEachRow',
  });
  const rows = await answer.json<Row>();
  return rows.map(([billingId, line, epoch, part, numbers, balance, classes, lastMs, holdDays, closed, splitDays]) => {
    const [micros, heldMicros, count, first, last] = numbers.map(Number) as SumNumbers;
    return {
      billingId,
      line,
      epoch,
      part,
      sums: { micros, heldMicros, numbers: count, first, last },
      balance: balance.map(Number) as Line['balance'],
      classes: classesOf(classes),
      lastMs: Number(lastMs),
      holdDays,
      closedMicros: Number(closed),
      splitDays,
    };
  });
}

// What some records of a page have in common stands in it once: every byte of it costs ClickHouse more than reading a record does.
function headOf({ workspaceId, openDays, balance: { epoch, atMs } }: Asked): string {
  return [workspaceId, openDays, epoch, atMs].map((one) => JSON.stringify(one)).join();
}

/** A record, and the last numbers that Redis has: of adjustments, and of the epoch under way. */
function textOf({ id, balance: { epoch, sequences, adjustment } }: Asked): string {
  const known = [
    [0, adjustment],
    [epoch, sequences.get(epoch) ?? 0],
  ].filter(([, number]) => number! > 0);
  return JSON.stringify([id, Object.fromEntries(known)]);
}

function classesOf([numbers, used, held, expired]: SumsOfClasses): Line['classes'] {
  return new Map(
    numbers.map((number, i) => [
      number,
      { usedMicros: Number(used[i]), heldMicros: Number(held[i]), expiredMicros: Number(expired[i]) },
    ]),
  );
}

type SumsOfClasses = [numbers: number[], used: string[], held: string[], expired: string[]];
type SumNumbers = [micros: number, heldMicros: number, count: number, first: number, last: number];
type Row = [
  ...[billingId: string, line: Line['line'], epoch: number, part: Part, sums: string[]],
  ...[balance: (number | string)[], classes: SumsOfClasses, lastMs: string],
  ...[holdDays: string[], closedMicros: string, splitDays: string[]],
];

// `page` has the records. An event is a line that has it alone, so events of open days and the sums of all others are lines alike.
const LINES = `
  with
    page as (
      select together.1 as of_workspace, together.2 as open_days, together.3 as now_epoch, together.4 as read_at_ms,
        record.1 as asked_id, record.2 as known
      from (
        select arrayJoin(JSONExtract(materialize({page:String}),
          'Array(Tuple(String, Array(Date), UInt32, UInt64, Array(Tuple(String, Map(String, UInt64)))))')) as together)
      array join together.5 as record),
    known[toString(line_epoch)] as known_number
  select billing_id, line, line_epoch,
    multiIf(line = 'verification' and line_epoch < now_epoch, 'own', line_epoch > now_epoch, 'ahead',
            last_number <= known_number, 'own', first_number <= known_number, 'split',
            is_over or at_ms < read_at_ms, 'ahead', 'newer') as part,
    (${sums.cost_micros}, ${sums.held_change}, ${sums.numbers}, ${sums.first_number}, ${sums.last_number}),
    ((${sums.balance} as last).1, last.2, last.3, last.4, ${sums.held_micros}),
    ${sums.classes}, ${sums.last_ms}, groupUniqArrayIf(day, has_holds),
    sumIf(cost_micros, is_over), groupUniqArrayIf(day, part = 'split')
  from (
    select billing_id, day, toString(line) as line, epoch as line_epoch, last_number as line_number, true as is_over, 0 as at_ms,
      ${Object.keys(eventAsLine).join(', ')}
    from booked_days final
    where billing_id in (select asked_id from page)
    union all
    select billing_id, day, ${lineOfEvent}, false, toUnixTimestamp64Milli(time), ${Object.values(eventAsLine).join(', ')}
    from usage_events final
    where (workspace_id, day, billing_id) in (select of_workspace, arrayJoin(open_days), asked_id from page)
  ) as lines
  any left join page on asked_id = billing_id
  where not (is_over and has(open_days, day))
  group by billing_id, line, line_epoch, part`;
