import type { Balance } from './balances.ts';
import type { Books } from '../stores/clickhouse.ts';

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

type Row = [
  ...[billingId: string, epoch: number, lastEvent: string, lastSeq: string, lastUsed: string],
  ...[event: string, witness: number, seq: string, before: string],
];

/** Finds the missing sequence numbers of some records, in order, up to the last ones that Redis has. */
export async function findMissingNumbers(books: Books, balances: Balance[]): Promise<Map<string, MissingNumbers[]>> {
  const found = new Map<string, MissingNumbers[]>();
  if (balances.length === 0) return found;
  const add = (billingId: string, missing: MissingNumbers) =>
    found.set(billingId, [...(found.get(billingId) ?? []), missing]);
  for (const row of await missingBetween(books, balances)) {
    const [billingId, epoch, lastEvent, lastSeq, lastUsed, event, witness, seq, before] = row;
    const events = Number(seq) - Number(lastSeq) - (witness ? 0 : 1);
    add(billingId, {
      epoch,
      afterSequence: Number(lastSeq),
      afterEvent: lastEvent || undefined,
      beforeSequence: witness ? undefined : Number(seq),
      beforeEvent: witness ? undefined : event,
      events,
      micros: Number(before) - Number(lastUsed),
    });
  }
  for (const missing of await missingAtEnd(books, balances)) add(missing.billingId, missing);
  return found;
}

/**
 * Finds sequence numbers that do not follow the one before. An adjustment carries the sequence number of the event before
 * it, so its cost is in the balance before the missing ones. A witness carries the sequence number of a lost event, so that
 * number counts as missing too.
 */
async function missingBetween(books: Books, balances: Balance[]): Promise<Row[]> {
  const answer = await books.client.query({
    query: `
      select billing_id, epoch, if(last_epoch = epoch, last_event, ''), toString(if(last_epoch = epoch, last_seq, 0) as after_seq),
             toString(last_used), event_id, kind = 'witness', toString(seq), toString(used_micros - cost_micros)
      from (
        select billing_id, epoch, seq, kind, event_id, cost_micros, used_micros,
               lagInFrame(epoch) over lines as last_epoch, lagInFrame(seq) over lines as last_seq,
               lagInFrame(event_id) over lines as last_event, lagInFrame(used_micros) over lines as last_used
        from (select * from usage_events final where billing_id in {ids:Array(String)})
        window lines as (partition by billing_id order by epoch, seq, kind = 'witness', number
                         rows between unbounded preceding and current row)
      )
      where kind != 'adjustment' and toInt64(seq) > toInt64(after_seq) + (kind != 'witness')
      order by billing_id, epoch, seq`,
    query_params: { ids: balances.map(({ billing }) => billing.id) },
    format: 'JSONCompactEachRow',
  });
  return answer.json<Row>();
}

/** Finds sequence numbers up to Redis's last one that come after the last one that the books have of their epoch. */
async function missingAtEnd(books: Books, balances: Balance[]): Promise<(MissingNumbers & { billingId: string })[]> {
  const answer = await books.client.query({
    query: `
      select billing_id, epoch, toString(max(seq)), argMax(event_id, (seq, number)), toString(argMax(used_micros, (seq, number)))
      from usage_events final where billing_id in {ids:Array(String)} and kind != 'witness'
      group by billing_id, epoch`,
    query_params: { ids: balances.map(({ billing }) => billing.id) },
    format: 'JSONCompactEachRow',
  });
  const rows = await answer.json<[billingId: string, epoch: number, seq: string, event: string, used: string]>();
  const lasts = new Map(
    rows.map(([billingId, epoch, seq, event, used]) => [
      `${billingId} ${epoch}`,
      { seq: Number(seq), event, used: Number(used) },
    ]),
  );
  return balances.flatMap(({ billing, sequences, usedMicros }) => {
    const newest = Math.max(...sequences.keys());
    return [...sequences].flatMap(([epoch, sequence]) => {
      const last = lasts.get(`${billing.id} ${epoch}`);
      const lastSeq = last?.seq ?? 0;
      if (lastSeq >= sequence) return [];
      return {
        billingId: billing.id,
        epoch,
        afterSequence: lastSeq,
        afterEvent: last?.event,
        beforeSequence: undefined,
        beforeEvent: undefined,
        events: sequence - lastSeq,
        // The balance after an epoch's last event is known for the newest epoch only.
        micros: epoch === newest && last ? usedMicros - last.used : undefined,
      };
    });
  });
}
