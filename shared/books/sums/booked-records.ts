import type { Books } from '../../stores/clickhouse.ts';
import type { Query } from '../../stores/postgres.ts';
import type { Balance } from '../balances.ts';
import { markedDays } from './marked-days.ts';
import { inPages, queryLines, type Asked, type ClassSums, type Line, type Part, type Sums } from './booked-lines.ts';

/**
 * What the books have of a record's events, beside what its balance in Redis says. "Own" are those of earlier epochs, and those that
 * Redis counted: their number is at most the last one that Redis has. "Ahead" are those that Redis should have counted before the
 * balance was read, and has not.
 */
export type Booked = { own: Sums; ahead: Sums };

/** All lines of an epoch but adjustments; `lastNumber` is the highest that an event has. */
export type BookedEpoch = Booked & { epoch: number; lastNumber: number };

/** What the books have of a billing record. */
export type BookedRecord = {
  epochs: BookedEpoch[];
  adjustments: Booked;
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
  /** The cost of all events on the other days. */
  closedMicros: number;
};

type Stores = { sql: Query; books: Books };

/**
 * Reads what the books have of some records, by record. It costs days, not events: days that are over come from
 * booked_days, and only the events of marked days are read. Events that came after a balance was read are left out.
 */
export async function readBooked({ sql, books }: Stores, balances: Balance[]): Promise<Map<string, BookedRecord>> {
  const found = new Map<string, BookedRecord>();
  // Read the marks before the sums: if a mark is cleared in between, its day is summed from the events without need.
  const marks = await markedDays(
    sql,
    balances.map(({ billing }) => billing.id),
  );
  const asked = balances.map((balance) => ({
    id: balance.billing.id,
    workspaceId: balance.billing.workspaceId,
    openDays: marks.get(balance.billing.id) ?? [],
    balance,
  }));
  // On the days that come back, Redis has some of the events and lacks others.
  await readInto(found, books, await readInto(found, books, asked));
  return found;
}

/** How many lines and adjustments the books have of a record that its balance has not counted: it was lost, or went back. */
export function behindBooks(balance: Balance, { epochs, adjustments }: BookedRecord): number {
  const earlier = epochs.filter(({ epoch }) => epoch < balance.epoch);
  return Math.max(0, sum(earlier.map(({ own }) => own.numbers)) - countedEarlier(balance)) + adjustments.ahead.numbers;
}

/** How many lines of earlier epochs a balance has counted. */
export function countedEarlier({ epoch, counted, sequences }: Balance): number {
  return counted + sum([...sequences].filter(([earlier]) => earlier < epoch).map(([, number]) => number));
}

/** Adds up numbers. */
export function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** Reads records into a map; gives those that have days to be summed from their events besides. */
async function readInto(found: Map<string, BookedRecord>, books: Books, asked: Asked[]): Promise<Asked[]> {
  const again: Asked[] = [];
  for (const some of inPages(asked)) {
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

function recordOf(lines: Line[], openDays: string[]): BookedRecord {
  const counted = lines.filter(({ part }) => part !== 'newer');
  const verifications = Map.groupBy(
    counted.filter(({ line }) => line === 'verification'),
    ({ epoch }) => epoch,
  );
  const known = counted.filter(({ part }) => part === 'own');
  const last = known.toSorted(({ balance: a }, { balance: b }) => b[0] - a[0] || b[1] - a[1] || b[2] - a[2])[0];
  return {
    epochs: [...verifications].map(([epoch, ofEpoch]) => ({
      epoch,
      ...booked(ofEpoch),
      lastNumber: Math.max(...ofEpoch.map(({ sums }) => sums.last)),
    })),
    adjustments: booked(counted.filter(({ line }) => line === 'adjustment')),
    lastMicros: last?.balance[3],
    lastHeldMicros: last?.balance[4] ?? 0,
    classes: addClasses(known.map(({ classes }) => classes)),
    lastMs: Math.max(0, ...known.map(({ lastMs }) => lastMs)),
    holdDays: [...new Set(lines.flatMap(({ holdDays }) => holdDays))],
    openDays,
    closedMicros: sum(lines.map((line) => line.closedMicros)),
  };
}

function addClasses(lines: Map<number, ClassSums>[]): Map<number, ClassSums> {
  const all = new Map<number, ClassSums>();
  for (const [number, { usedMicros, heldMicros, expiredMicros }] of lines.flatMap((line) => [...line])) {
    const before = all.get(number) ?? { usedMicros: 0, heldMicros: 0, expiredMicros: 0 };
    all.set(number, {
      usedMicros: before.usedMicros + usedMicros,
      heldMicros: before.heldMicros + heldMicros,
      expiredMicros: before.expiredMicros + expiredMicros,
    });
  }
  return all;
}

function booked(lines: Line[]): Booked {
  const nothing: Sums = { micros: 0, heldMicros: 0, numbers: 0, first: 0, last: 0 };
  const of = (part: Part) => lines.find((line) => line.part === part)?.sums ?? nothing;
  return { own: of('own'), ahead: of('ahead') };
}
