import { inChunks, readRows } from '../../stores/clickhouse.ts';
import { eachOf } from '../../stores/postgres.ts';
import type { UsageStores } from '../usage/query.ts';
import { byRecord, MERGED, MOST_OF_A_KIND, type Records } from './movements.ts';
import type { Span } from './span.ts';

/** An adjustment, or the sum of several of a day and name. */
export type Adjustment = { day: string; name: string; micros: number } & (
  { eventId: string; tokenId: string; reason: string } | { events: number }
);

/**
 * The adjustments of some records that the books have, by record; of one with very many their sums, with `isMerged` under one name.
 * Postgres knows on which days there are some.
 */
export async function readAdjustments(
  { sql, books }: UsageStores,
  { workspaceId, ids }: Records,
  { startDay, endDay }: Span,
  { isMerged }: { isMerged: boolean },
): Promise<Map<string, Adjustment[]>> {
  const days = await sql<{ billingId: string; day: string }[]>`
    select distinct billing_id, day from adjustments
    where billing_id = any(${eachOf(sql, ids)}) and amount_micros <> 0 and day >= ${startDay} and day < ${endDay}`;
  const found: [billingId: string, Adjustment][] = [];
  for (const some of inChunks(days, ({ billingId }) => billingId.length)) {
    const rows = await readRows<Row>(books, ADJUSTMENTS, {
      workspaceId,
      isMerged,
      ids: some.map(({ billingId }) => billingId),
      days: some.map(({ day }) => day),
    });
    for (const [id, day, name, sum, events, eventId, tokenId, reason] of rows) {
      const more = eventId === '' ? { events: Number(events) } : { eventId, tokenId, reason };
      found.push([id, { day, name, micros: Number(sum), ...more }]);
    }
  }
  return byRecord(found);
}

type Row = [
  ...[id: string, day: string, name: string, micros: string, events: string],
  ...[eventId: string, actor: string, reason: string],
];

const ADJUSTMENTS = `
  select billing_id, toString(day), if(is_many and {isMerged:Bool}, '${MERGED}', usage_name) as name, sum(cost_micros), count(),
    if(is_many, '', event_id) as event, any(actor), any(reason)
  from (
    select *, count() over (partition by billing_id) > ${MOST_OF_A_KIND} as is_many from usage_events final
    where workspace_id = {workspaceId:String} and key_id = '' and kind = 'adjustment' and cost_micros != 0
      and (day, billing_id) in (select arrayJoin(arrayZip({days:Array(Date)}, {ids:Array(String)}))))
  group by billing_id, day, name, event`;
