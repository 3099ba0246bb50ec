import { eachOf, type Query } from '../../stores/postgres.ts';
import { byRecord, type Movement } from './movements.ts';
import { dayIn, type Span } from './span.ts';

/** Losses that were found in a span: at most as many as are found in a record. They are memos: neither the balance nor the books have them. */
export async function readLosses(sql: Query, ids: string[], span: Span): Promise<Map<string, Movement[]>> {
  const rows = await sql<{ billingId: string; events: number; amountMicros: number | null; foundMs: number }[]>`
    select billing_id, events, amount_micros, floor(extract(epoch from found_at) * 1000)::bigint as found_ms
    from usage_losses
    where billing_id = any(${eachOf(sql, ids)}) and found_at >= to_timestamp(${span.startMs}::float8 / 1000)
      and found_at < to_timestamp(${span.endMs}::float8 / 1000)
    order by billing_id, epoch, after_seq`;
  return byRecord(
    rows.map(({ billingId, events, amountMicros, foundMs }): [billingId: string, Movement] => [
      billingId,
      {
        day: dayIn(span, foundMs),
        kind: 'loss',
        name: '',
        balance: 'used',
        micros: 0,
        events,
        ...(amountMicros !== null && { lostMicros: amountMicros }),
      },
    ]),
  );
}
