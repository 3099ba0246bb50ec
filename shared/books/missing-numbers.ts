import type { Balance } from './balances.ts';
import type { Books } from '../stores/clickhouse.ts';

/** Numbers of one epoch of a record that no event in the books has. */
export type MissingNumbers = {
  epoch: number;
  /** The event before them (undefined: they are the first of the epoch), and the one after (undefined: the last). */
  afterNumber: number;
  afterEvent: string | undefined;
  beforeNumber: number | undefined;
  beforeEvent: string | undefined;
  events: number;
  /** What they cost together, by the balances before and after, where both are known. */
  micros: number | undefined;
};

type Row = [
  ...[billingId: string, epoch: number, lastEvent: string, lastSeq: string, lastUsed: string],
  ...[event: string, witness: number, seq: string, before: string],
];

/** The gaps of some records, by the order of their numbers; up to those that their balances know. */
export async function findMissingNumbers(books: Books, balances: Balance[]): Promise<Map<string, MissingNumbers[]>> {
  const gaps = new Map<string, MissingNumbers[]>();
  if (balances.length === 0) return gaps;
  const add = (billingId: string, gap: MissingNumbers) => gaps.set(billingId, [...(gaps.get(billingId) ?? []), gap]);
  for (const [billingId, epoch, lastEvent, lastSeq, lastUsed, event, witness, seq, before] of await between(
    books,
    balances,
  )) {
    const events = Number(seq) - Number(lastSeq) - (witness ? 0 : 1);
    add(billingId, {
      epoch,
      afterNumber: Number(lastSeq),
      afterEvent: lastEvent || undefined,
      beforeNumber: witness ? undefined : Number(seq),
      beforeEvent: witness ? undefined : event,
      events,
      micros: Number(before) - Number(lastUsed),
    });
  }
  for (const gap of await atTheEnd(books, balances)) add(gap.billingId, gap);
  return gaps;
}

/**
 * Where a number does not follow the one before it. An adjustment has the number of the event that it stands behind, so
 * that its cost is in the balance of the line before the gap. A witness is no event: its own number is missing too.
 */
async function between(books: Books, balances: Balance[]): Promise<Row[]> {
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
    query_params: { ids: balances.map(({ place }) => place.id) },
    format: 'JSONCompactEachRow',
  });
  return answer.json<Row>();
}

/** Numbers that a balance knows and that come after all that the books have of their epoch. */
async function atTheEnd(books: Books, balances: Balance[]): Promise<(MissingNumbers & { billingId: string })[]> {
  const answer = await books.client.query({
    query: `
      select billing_id, epoch, toString(max(seq)), argMax(event_id, (seq, number)), toString(argMax(used_micros, (seq, number)))
      from usage_events final where billing_id in {ids:Array(String)} and kind != 'witness'
      group by billing_id, epoch`,
    query_params: { ids: balances.map(({ place }) => place.id) },
    format: 'JSONCompactEachRow',
  });
  const rows = await answer.json<[billingId: string, epoch: number, seq: string, event: string, used: string]>();
  const lasts = new Map(
    rows.map(([billingId, epoch, seq, event, used]) => [
      `${billingId} ${epoch}`,
      { seq: Number(seq), event, used: Number(used) },
    ]),
  );
  return balances.flatMap(({ place, numbers, usedMicros }) => {
    const newest = Math.max(...numbers.keys());
    return [...numbers].flatMap(([epoch, number]) => {
      const last = lasts.get(`${place.id} ${epoch}`);
      const lastSeq = last?.seq ?? 0;
      if (lastSeq >= number) return [];
      return {
        billingId: place.id,
        epoch,
        afterNumber: lastSeq,
        afterEvent: last?.event,
        beforeNumber: undefined,
        beforeEvent: undefined,
        events: number - lastSeq,
        // Only of the newest epoch is the balance after its last number known.
        micros: epoch === newest && last ? usedMicros - last.used : undefined,
      };
    });
  });
}
