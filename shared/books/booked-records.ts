import type { Books } from '../stores/clickhouse.ts';
import type { Query } from '../stores/postgres.ts';
import type { Balance } from './balances.ts';
import { markedDays } from './marked-days.ts';
import { inGroups, lineOfEvent, openDayParams, openDaysTable, sumsOfLine, type WithOpenDays } from './day-sums.ts';

/** Some events of one epoch of a record, or some of its adjustments. Numbers without a gap: `numbers` = `last` - `first` + 1. */
export type Sums = { events: number; micros: number; numbers: number; first: number; last: number };

/**
 * What the books have of a record's events, beside what its balance in Redis says. "Own" are the events that Redis
 * counted: their number is at most the last one that Redis has. "Late" are those that Redis lacks. "Ahead" are those that
 * Redis should have counted before the balance was read, and has not: it went back to an earlier state.
 */
export type Booked = { own: Sums; late: Sums; ahead: Sums };

/** The verifications and settlements of an epoch; `lastNumber` is the highest that an event or a witness has. */
export type BookedEpoch = Booked & { epoch: number; lastNumber: number };

/** What the books have of a billing record. */
export type BookedRecord = {
  epochs: BookedEpoch[];
  adjustments: Booked;
  /** The used micro-credits after the last event that is own or late; undefined without an event. */
  lastMicros: number | undefined;
  /** Days that were summed from their events; all others from booked_days. */
  openDays: string[];
  /** The cost of all events on the other days. */
  closedMicros: number;
};

const PAGE_SECONDS = 10;
const RECORD_SECONDS = 25;

type Stores = { sql: Query; books: Books };
type Asked = WithOpenDays & { balance: Balance };

/**
 * Reads what the books have of some records, by record. It costs days, not events: days that are over come from
 * booked_days, and only the events of marked days are read. Events that came after a balance was read are left out.
 */
export async function readBooked({ sql, books }: Stores, balances: Balance[]): Promise<Map<string, BookedRecord>> {
  const found = new Map<string, BookedRecord>();
  for (const some of inGroups(balances, () => 1)) {
    // Read the marks before the sums: if a mark is cleared in between, its day is summed from the events without need.
    const marks = await markedDays(
      sql,
      some.map(({ billing }) => billing.id),
    );
    const asked = some.map((balance) => ({
      id: balance.billing.id,
      openDays: marks.get(balance.billing.id) ?? [],
      balance,
    }));
    // On the days that come back, Redis has some of the events and lacks others.
    await readInto(found, books, await readInto(found, books, asked));
  }
  return found;
}

/** What the books have that a balance lacks: the sum of late verifications, and the adjustments that follow its last one. */
export function lateUsage(balance: Balance, { epochs, adjustments }: BookedRecord) {
  const { late } = adjustments;
  const from = balance.adjustment;
  // Where one is missing between them, Postgres has them all, and the sweeper applies them in their order.
  const follow = late.numbers > 0 && late.first === from + 1 && late.numbers === late.last - from;
  return {
    micros: sum(epochs.map((one) => one.late.micros)),
    events: sum(epochs.map((one) => one.late.events)),
    from,
    to: follow ? late.last : from,
    adjustedMicros: follow ? late.micros : 0,
  };
}

/** Adds up numbers. */
export function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** Reads records into a map; gives those that have days to be summed from their events besides. */
async function readInto(found: Map<string, BookedRecord>, books: Books, asked: Asked[]): Promise<Asked[]> {
  const again: Asked[] = [];
  for (const some of inGroups(asked, ({ balance, openDays }) =>
    Math.max(balance.sequences.size + 1, openDays.length),
  )) {
    const byRecord = Map.groupBy(await queryLines(books, some), (line) => line.billingId);
    for (const one of some) {
      const lines = byRecord.get(one.id) ?? [];
      const split = lines.flatMap((line) => line.splitDays);
      if (split.length > 0) again.push({ ...one, openDays: [...new Set([...one.openDays, ...split])] });
      else found.set(one.id, recordOf(lines, one.openDays));
    }
  }
  return again;
}

type Part = keyof Booked | 'newer' | 'split';
type Line = {
  billingId: string;
  line: 'verification' | 'adjustment';
  epoch: number;
  part: Part;
  sums: Sums;
  lastWitness: number;
  balance: [epoch: number, sequence: number, number: number, micros: number];
  closedMicros: number;
  splitDays: string[];
};

function recordOf(lines: Line[], openDays: string[]): BookedRecord {
  const counted = lines.filter(({ part }) => part !== 'newer');
  const verifications = Map.groupBy(
    counted.filter(({ line }) => line === 'verification'),
    ({ epoch }) => epoch,
  );
  const last = counted
    .filter(({ part, sums }) => part !== 'ahead' && sums.numbers > 0)
    .map(({ balance }) => balance)
    .toSorted((a, b) => b[0] - a[0] || b[1] - a[1] || b[2] - a[2])[0];
  return {
    epochs: [...verifications].map(([epoch, ofEpoch]) => ({
      epoch,
      ...booked(ofEpoch),
      lastNumber: Math.max(...ofEpoch.flatMap(({ sums, lastWitness }) => [sums.last, lastWitness])),
    })),
    adjustments: booked(counted.filter(({ line }) => line === 'adjustment')),
    lastMicros: last?.[3],
    openDays,
    closedMicros: sum(lines.map((line) => line.closedMicros)),
  };
}

function booked(lines: Line[]): Booked {
  const nothing: Sums = { events: 0, micros: 0, numbers: 0, first: 0, last: 0 };
  const of = (part: Part) => lines.find((line) => line.part === part)?.sums ?? nothing;
  return { own: of('own'), late: of('late'), ahead: of('ahead') };
}

type Row = [
  ...[billingId: string, line: Line['line'], epoch: number, part: Part],
  ...[events: string, micros: string, numbers: string, first: string, last: string, lastWitness: string],
  ...[balance: [epoch: number, sequence: string, number: number, micros: string]],
  ...[closedMicros: string, splitDays: string[]],
];

const columns = Object.keys(sumsOfLine).join(', ');
const sumsOfOpenDays = Object.values(sumsOfLine).join(', ');

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
    sum(events), sum(cost_micros), sum(numbers), minIf(first_number, numbers > 0), max(last_number), max(last_witness),
    (max(balance).1, max(balance).2, max(balance).3, max(balance).4),
    sumIf(cost_micros, is_over), groupUniqArrayIf(toString(day), part = 'split')
  from (
    select billing_id, day, toString(line) as line, epoch as line_epoch, ${columns}, true as is_over,
      multiIf(line_epoch > now_epoch, 'ahead', last_number <= known_number, 'own', first_number <= known_number, 'split',
              line_epoch = now_epoch, 'ahead', 'late') as part
    from booked_days final
    any left join asked on asked_id = billing_id
    any left join known on known_id = billing_id and known_line = toString(line) and known_epoch = epoch
    where billing_id in {ids:Array(String)} and (billing_id, day) not in open_days
    union all
    select billing_id, day, line, line_epoch, ${sumsOfOpenDays}, false, part
    from (
      select billing_id, day, kind, epoch, seq, number, cost_micros, used_micros,
        ${lineOfEvent},
        toUnixTimestamp64Milli(time) as at_ms,
        multiIf(line_epoch > now_epoch, 'ahead', line_number <= known_number, 'own',
                line = 'adjustment', if(read_at_ms > 0 and at_ms >= read_at_ms, 'newer', 'late'),
                line_epoch < now_epoch, 'late', at_ms < read_at_ms, 'ahead', 'newer') as part
      from usage_events final
      any left join asked on asked_id = billing_id
      any left join known on known_id = billing_id and known_line = line and known_epoch = line_epoch
      where billing_id in {ids:Array(String)} and (billing_id, day) in open_days
    )
    group by billing_id, day, line, line_epoch, part
  )
  group by billing_id, line, line_epoch, part`;

async function queryLines(books: Books, asked: Asked[]): Promise<Line[]> {
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
  return rows.map(
    ([billingId, line, epoch, part, events, micros, numbers, first, last, witness, balance, ...rest]) => ({
      billingId,
      line,
      epoch,
      part,
      sums: {
        events: Number(events),
        micros: Number(micros),
        numbers: Number(numbers),
        first: Number(first),
        last: Number(last),
      },
      lastWitness: Number(witness),
      balance: [balance[0], Number(balance[1]), balance[2], Number(balance[3])],
      closedMicros: Number(rest[0]),
      splitDays: rest[1],
    }),
  );
}
