import { eachOf, type Query } from '../../stores/postgres.ts';
import { byRecord, MERGED, MOST_OF_A_KIND, type Movement } from './movements.ts';
import { dayIn, type Span } from './span.ts';

/** Losses that were found in a span. They are memos: neither the balance nor the books have them. */
export async function readLosses(sql: Query, ids: string[], span: Span): Promise<Map<string, Movement[]>> {
  const rows = await sql<Lost[]>`
    with found as (
      select *, floor(extract(epoch from found_at) * 1000)::bigint as found_ms,
             count(*) over (partition by billing_id) <= ${MOST_OF_A_KIND} as is_alone
      from usage_losses
      where billing_id = any(${eachOf(sql, ids)}) and found_at >= to_timestamp(${span.startMs}::float8 / 1000)
        and found_at < to_timestamp(${span.endMs}::float8 / 1000)
    )
    select billing_id, is_alone, sum(events)::bigint as events, sum(amount_micros)::bigint as amount_micros,
           bool_and(is_priced) as is_priced, min(found_ms) as found_ms
    from found
    group by billing_id, is_alone, width_bucket(found_ms, ${span.starts}::bigint[]),
             case when is_alone then (epoch, after_seq) end
    order by billing_id, min(epoch), min(after_seq)`;
  return byRecord(
    rows.map(({ billingId, isAlone, events, amountMicros, isPriced, foundMs }): [billingId: string, Movement] => [
      billingId,
      {
        day: dayIn(span, foundMs),
        kind: 'loss',
        name: isAlone ? '' : MERGED,
        balance: 'used',
        micros: 0,
        events,
        ...(isAlone && isPriced && { lostMicros: amountMicros }),
      },
    ]),
  );
}

/** A loss that is told alone, or several of a day. */
type Lost = {
  billingId: string;
  isAlone: boolean;
  events: number;
  amountMicros: number;
  isPriced: boolean;
  foundMs: number;
};
