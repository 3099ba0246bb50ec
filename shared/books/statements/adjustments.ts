import { inChunks, type Books } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import type { UsageStores } from '../usage/query.ts';
import { ask, type Records } from './ask.ts';
import { byRecord, MERGED, MOST_OF_A_KIND } from './movements.ts';
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
  span: Span,
  { isMerged }: { isMerged: boolean },
): Promise<Map<string, Adjustment[]>> {
  const days = await daysWithAdjustments(sql, ids, span);
  const each = await readEach(books, { workspaceId, days });
  const ofMany = days.filter(({ billingId }) => (each.get(billingId)?.length ?? 0) > MOST_OF_A_KIND);
  const sums = await readSums(books, { workspaceId, days: ofMany }, isMerged ? `'${MERGED}'` : 'usage_name');
  return new Map([...each, ...sums]);
}

type Days = { workspaceId: string; days: { billingId: string; day: string }[] };

async function daysWithAdjustments(sql: Query, ids: string[], { startDay, endDay }: Span) {
  return sql<Days['days']>`
    select distinct billing_id, day from adjustments
    where billing_id = any(${eachOf(sql, ids)}) and amount_micros <> 0 and day >= ${startDay} and day < ${endDay}`;
}

/** Each of them; of a record with very many only some. */
async function readEach(books: Books, days: Days): Promise<Map<string, Adjustment[]>> {
  type Row = [id: string, day: string, name: string, micros: string, eventId: string, actor: string, reason: string];
  const rows = await askOfDays<Row>(
    books,
    `
      select billing_id, toString(day), usage_name, cost_micros, event_id, actor, reason from usage_events final
      where ${ARE_ADJUSTMENTS}
      limit ${MOST_OF_A_KIND + 1} by billing_id`,
    days,
  );
  return byRecord(
    rows.map(([id, day, name, micros, eventId, tokenId, reason]) => [
      id,
      { day, name, micros: Number(micros), eventId, tokenId, reason },
    ]),
  );
}

async function readSums(books: Books, days: Days, name: string): Promise<Map<string, Adjustment[]>> {
  type Row = [id: string, day: string, name: string, micros: string, events: string];
  const rows = await askOfDays<Row>(
    books,
    `
      select billing_id, toString(day), ${name} as name, sum(cost_micros), count() from usage_events final
      where ${ARE_ADJUSTMENTS}
      group by billing_id, day, name`,
    days,
  );
  return byRecord(
    rows.map(([id, day, name, micros, events]) => [id, { day, name, micros: Number(micros), events: Number(events) }]),
  );
}

const ARE_ADJUSTMENTS = `workspace_id = {workspaceId:String} and key_id = '' and kind = 'adjustment' and cost_micros != 0
  and (day, billing_id) in (select arrayJoin(arrayZip({days:Array(Date)}, {ids:Array(String)})))`;

async function askOfDays<Row extends unknown[]>(
  books: Books,
  query: string,
  { workspaceId, days }: Days,
): Promise<Row[]> {
  const pages: Row[][] = [];
  for (const some of inChunks(days, ({ billingId }) => billingId.length)) {
    const ids = some.map(({ billingId }) => billingId);
    pages.push(await ask<Row>(books, query, { workspaceId, ids, days: some.map(({ day }) => day) }));
  }
  return pages.flat();
}
