import { eachOf, type Query } from '../../stores/postgres.ts';
import { dayNumber, QUARTER_MS, type Periods } from '../../values/periods.ts';
import { allowWorkspace } from '../usage/allowed-workspace.ts';
import { readUsage, type UsageStores } from '../usage/query.ts';
import type { UsageGroup } from '../usage/sql.ts';
import { ask } from './ask.ts';
import { MERGED, sumByName, type ByName, type Movement } from './movements.ts';
import type { Span } from './span.ts';

export type Records = { workspaceId: string; ids: string[] };

/** Usage of a record on a day of a span, adjustments included. */
type UsageRow = { billingId: string; day: string; name: string; micros: number; events: number };

// More rows than that of one record, and its names are not told apart.
const MOST_ROWS = 20_000;

/** The usage of some records in a span, by record: by day and name, and each adjustment with who made it and why. */
export async function readUsageMovements(
  stores: UsageStores,
  records: Records,
  span: Span,
): Promise<Map<string, Movement[]>> {
  const rows = await readRows(stores, records, span);
  const adjustments = Map.groupBy(await readAdjustments(stores, records, span), ({ billingId }) => billingId);
  const found = new Map<string, Movement[]>();
  for (const [id, ofRecord] of Map.groupBy(rows, ({ billingId }) => billingId))
    found.set(id, movementsOf(ofRecord, adjustments.get(id) ?? []));
  return found;
}

/** What some records used in a span, adjustments included, by record. */
export async function readUsed(stores: UsageStores, records: Records, span: Span): Promise<Map<string, number>> {
  const rows = await queryUsage(stores, records, wholeOf(span), { isMerged: true, most: records.ids.length });
  return new Map(rows.map(({ billingId, micros }) => [billingId, micros]));
}

/** The same by usage name. */
export async function readUsedByName(stores: UsageStores, records: Records, span: Span): Promise<Map<string, ByName>> {
  const rows = Map.groupBy(await readRows(stores, records, wholeOf(span)), ({ billingId }) => billingId);
  return new Map([...rows].map(([id, ofRecord]) => [id, sumByName(ofRecord)]));
}

function wholeOf(span: Span): Span {
  return { ...span, days: [span.startDay], starts: [span.startMs] };
}

/** What records have together decides nothing: one that has many rows is always asked for alone. */
async function readRows(stores: UsageStores, { workspaceId, ids }: Records, span: Span): Promise<UsageRow[]> {
  const rows = await queryUsage(stores, { workspaceId, ids }, span, { most: MOST_ROWS + 1 });
  if (rows.length <= MOST_ROWS) return rows;
  if (ids.length === 1) return queryUsage(stores, { workspaceId, ids }, span, { isMerged: true, most: MOST_ROWS });
  const half = Math.ceil(ids.length / 2);
  const first = await readRows(stores, { workspaceId, ids: ids.slice(0, half) }, span);
  return [...first, ...(await readRows(stores, { workspaceId, ids: ids.slice(half) }, span))];
}

async function queryUsage(
  stores: UsageStores,
  { workspaceId, ids }: Records,
  { timezone, endMs, endDay, days, starts }: Span,
  { isMerged = false, most }: { isMerged?: boolean; most: number },
): Promise<UsageRow[]> {
  if (ids.length === 0 || endMs <= starts[0]!) return [];
  const periods: Periods = {
    timezone,
    quarters: [...starts, endMs].map((ms) => ms / QUARTER_MS),
    days: [...days, endDay].map(dayNumber),
  };
  const groupBy: UsageGroup[] = isMerged ? ['billing'] : ['billing', 'usageName'];
  const question = { workspace: allowWorkspace(workspaceId), periods, groupBy, filters: { billingIds: ids } };
  const rows = await readUsage(stores, question, { limit: most, nowMs: Date.now() });
  return rows.map(({ period, billingId = '', usageName = MERGED, micros, events }) => ({
    billingId,
    day: days[period]!,
    name: usageName,
    micros: Number(micros),
    events,
  }));
}

type Adjustment = {
  billingId: string;
  day: string;
  name: string;
  micros: number;
  eventId: string;
  tokenId: string;
  reason: string;
};

/** The adjustments that the books have; Postgres knows on which days there are some. */
async function readAdjustments(
  { sql, books }: UsageStores,
  { workspaceId, ids }: Records,
  span: Span,
): Promise<Adjustment[]> {
  const days = await daysWithAdjustments(sql, ids, span);
  if (days.length === 0) return [];
  type Row = [id: string, day: string, name: string, micros: string, eventId: string, actor: string, reason: string];
  const rows = await ask<Row>(
    books,
    `
      select billing_id, toString(day), usage_name, cost_micros, event_id, actor, reason from usage_events final
      where workspace_id = {workspaceId:String} and key_id = '' and kind = 'adjustment' and cost_micros != 0
        and (day, billing_id) in (select arrayJoin(arrayZip({days:Array(Date)}, {ids:Array(String)})))
      order by billing_id, number`,
    { workspaceId, ids: days.map(({ billingId }) => billingId), days: days.map(({ day }) => day) },
  );
  return rows.map(([billingId, day, name, micros, eventId, tokenId, reason]) => ({
    billingId,
    day,
    name,
    micros: Number(micros),
    eventId,
    tokenId,
    reason,
  }));
}

async function daysWithAdjustments(sql: Query, ids: string[], { startDay, endDay }: Span) {
  return sql<{ billingId: string; day: string }[]>`
    select distinct billing_id, day from adjustments
    where billing_id = any(${eachOf(sql, ids)}) and amount_micros <> 0 and day >= ${startDay} and day < ${endDay}`;
}

/** Usage without what adjustments, each told by itself, are of it. */
function movementsOf(rows: UsageRow[], adjustments: Adjustment[]): Movement[] {
  // All rows, for it may be the name of one, too.
  const isMerged = rows.every(({ name }) => name === MERGED);
  const nameOf = (name: string) => (isMerged ? MERGED : name);
  const adjusted = new Map<string, number>();
  for (const { day, name, micros } of adjustments) {
    const key = `${day} ${nameOf(name)}`;
    adjusted.set(key, (adjusted.get(key) ?? 0) + micros);
  }
  const usage = rows.map(({ day, name, micros, events }): Movement => {
    const rest = micros - (adjusted.get(`${day} ${name}`) ?? 0);
    return { day, kind: 'usage', name, balance: 'used', micros: rest, events };
  });
  return [
    ...usage.filter(({ micros, events }) => micros !== 0 || events! > 0),
    ...adjustments.map(({ day, name, micros, eventId, tokenId, reason }): Movement => ({
      day,
      kind: 'adjustment',
      name: nameOf(name),
      balance: 'used',
      micros,
      eventId,
      tokenId,
      reason,
    })),
  ];
}
