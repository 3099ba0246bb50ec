import type { Books } from '../stores/clickhouse.ts';
import type { Balance } from './balances.ts';

/**
 * What the books have of one epoch of a billing record. "Own" are the verifications that Redis counted: their sequence
 * number is at most the last one that Redis has of the epoch. "Late" are those that only the books have.
 */
export type BookedEpoch = {
  epoch: number;
  ownMicros: number;
  /** How many own sequence numbers the books have; complete when it equals the last one that Redis has. */
  ownSequences: number;
  ownLastSequence: number;
  lateMicros: number;
  lateEvents: number;
  /** How many sequence numbers the books have in all, and the highest. */
  sequences: number;
  lastSequence: number;
  /** The balance after the last event; events are ordered by `sequence`, adjustments within it by `number`. */
  last: { sequence: number; number: number; usedMicros: number } | undefined;
  /** Each with its own number within the billing record. */
  adjustments: { number: number; micros: number }[];
};

const RECORDS_AT_ONCE = 1_000;

/** Reads what the books have of some records, by record. Events that came after a balance was read are left out. */
export async function readBookedEpochs(books: Books, balances: Balance[]): Promise<Map<string, BookedEpoch[]>> {
  const found = new Map<string, BookedEpoch[]>();
  const groups = Object.values(Object.groupBy(balances, (balance) => balance.epoch));
  for (const group of groups) {
    for (let i = 0; i < group!.length; i += RECORDS_AT_ONCE) {
      for (const row of await queryEpochs(books, group!.slice(i, i + RECORDS_AT_ONCE))) {
        const { billing_id, ...epoch } = row;
        found.set(billing_id, [...(found.get(billing_id) ?? []), epoch]);
      }
    }
  }
  return found;
}

/** What the books have that a balance lacks: the sum of late verifications, and the adjustments that follow its last one. */
export function lateUsage(balance: Balance, epochs: BookedEpoch[]) {
  const adjustments = new Map(epochs.flatMap((one) => one.adjustments.map(({ number, micros }) => [number, micros])));
  let to = balance.adjustment;
  let adjustedMicros = 0;
  for (let micros = adjustments.get(to + 1); micros !== undefined; micros = adjustments.get(to + 1)) {
    adjustedMicros += micros;
    to += 1;
  }
  return {
    micros: sum(epochs.map((one) => one.lateMicros)),
    events: sum(epochs.map((one) => one.lateEvents)),
    from: balance.adjustment,
    to,
    adjustedMicros,
  };
}

/** The balance after the last event of all epochs; undefined without an event. */
export function lastBalance(epochs: BookedEpoch[]): number | undefined {
  const last = epochs.filter((one) => one.last).toSorted((a, b) => b.epoch - a.epoch)[0];
  return last?.last?.usedMicros;
}

/** Adds up numbers. */
export function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

// Numbers that may be large come as text.
type Row = {
  billing_id: string;
  epoch: number;
  sums: [own: string, late: string];
  counts: [own: string, ownLastSequence: string, late: string, all: string, last: string];
  last: [known: number, seq: string, number: number, used: string];
  adjustments: [number: number, micros: string][];
};

async function queryEpochs(books: Books, balances: Balance[]) {
  const known = balances.flatMap(({ billing, sequences }) =>
    [...sequences].map(([epoch, seq]) => ({ id: billing.id, epoch, seq })),
  );
  const answer = await books.client.query({
    query: `
      select billing_id, epoch,
        (toString(sumIf(cost_micros, kind = 'verification' and seq <= known_seq)),
         toString(sumIf(cost_micros, kind = 'verification' and seq > known_seq))) as sums,
        (toString(countIf(numbered and seq <= known_seq)), toString(any(known_seq)),
         toString(countIf(kind = 'verification' and seq > known_seq)),
         toString(countIf(numbered)), toString(maxIf(seq, kind != 'adjustment'))) as counts,
        (countIf(kind != 'witness') > 0,
         toString(argMaxIf(seq, (seq, number), kind != 'witness')),
         argMaxIf(number, (seq, number), kind != 'witness'),
         toString(argMaxIf(used_micros, (seq, number), kind != 'witness'))) as last,
        arrayMap(a -> (a.1, toString(a.2)), groupArrayIf((number, cost_micros), kind = 'adjustment')) as adjustments
      from (
        select billing_id, epoch, kind, kind in ('verification', 'settlement') as numbered, seq, number, cost_micros, used_micros
        from usage_events final
        where billing_id in {ids:Array(String)} and epoch <= {epoch:UInt32}
      ) as event
      left join (
        select known.1 as billing_id, known.2 as epoch, known.3 as known_seq
        from (select arrayJoin(arrayZip({knownIds:Array(String)}, {knownEpochs:Array(UInt32)}, {knownSeqs:Array(UInt64)})) as known)
      ) as survived using (billing_id, epoch)
      where epoch < {epoch:UInt32} or seq <= known_seq
      group by billing_id, epoch`,
    query_params: {
      ids: balances.map(({ billing }) => billing.id),
      epoch: balances[0]!.epoch,
      knownIds: known.map(({ id }) => id),
      knownEpochs: known.map(({ epoch }) => epoch),
      knownSeqs: known.map(({ seq }) => seq),
    },
    format: 'JSONEachRow',
  });
  const rows = await answer.json<Row>();
  return rows.map(({ billing_id, epoch, sums, counts, last, adjustments }) => ({
    billing_id,
    epoch,
    ownMicros: Number(sums[0]),
    lateMicros: Number(sums[1]),
    ownSequences: Number(counts[0]),
    ownLastSequence: Number(counts[1]),
    lateEvents: Number(counts[2]),
    sequences: Number(counts[3]),
    lastSequence: Number(counts[4]),
    last: last[0] ? { sequence: Number(last[1]), number: last[2], usedMicros: Number(last[3]) } : undefined,
    adjustments: adjustments.map(([number, micros]) => ({ number, micros: Number(micros) })),
  }));
}
