import type { Clock } from '../../runtime/clock.ts';
import { dayNumber, QUARTER_MS, type Periods } from '../../values/periods.ts';
import { allowWorkspace } from '../usage/allowed-workspace.ts';
import { readUsage, type UsageStores } from '../usage/query.ts';
import type { UsageGroup } from '../usage/sql.ts';
import { readAdjustments, type Adjustment } from './adjustments.ts';
import {
  MERGED,
  merged,
  MOST_OF_A_KIND,
  sumByName,
  usageByName,
  type ByName,
  type Movement,
  type Records,
} from './movements.ts';
import type { Span } from './span.ts';

type Stores = UsageStores & { redis: { clock: Clock } };

/** Usage of a record on a day of a span, adjustments included. */
type UsageRow = { billingId: string; day: string; name: string; micros: number; events: number };

// More rows than that of one record, and its names are not told apart.
const MOST_ROWS = 20_000;

/** The usage of a record by day and name, each adjustment with who made it and why, and what they add up to by name. */
export type Usage = { movements: Movement[]; byName: ByName };

/** The usage of some records in a span, by record. */
export async function readUsageMovements(stores: Stores, records: Records, span: Span): Promise<Map<string, Usage>> {
  const found = new Map<string, Usage>();
  for await (const { ids, rows, isMerged } of readRows(stores, records, span)) {
    const adjustments = await readAdjustments(stores, { ...records, ids }, span, { isMerged });
    for (const [id, ofRecord] of Map.groupBy(rows, ({ billingId }) => billingId))
      found.set(id, usageOf(ofRecord, adjustments.get(id) ?? []));
  }
  return found;
}

/** What some records used in a span, adjustments included, by record. */
export async function readUsed(stores: Stores, records: Records, span: Span): Promise<Map<string, number>> {
  const rows = await queryUsage(stores, records, wholeOf(span), { isMerged: true, most: records.ids.length });
  return new Map(rows.map(({ billingId, micros }) => [billingId, micros]));
}

/** The same by usage name. */
export async function readUsedByName(stores: Stores, records: Records, span: Span): Promise<Map<string, ByName>> {
  const found = new Map<string, ByName>();
  for await (const { rows } of readRows(stores, records, wholeOf(span)))
    for (const [id, ofRecord] of Map.groupBy(rows, ({ billingId }) => billingId)) found.set(id, sumByName(ofRecord));
  return found;
}

function wholeOf(span: Span): Span {
  return { ...span, days: [span.startDay], starts: [span.startMs] };
}

/** All rows of some records; `isMerged`: those of one whose names are not told apart. */
type Page = { ids: string[]; rows: UsageRow[]; isMerged: boolean };

/** Reads records page by page. What they have together decides nothing: one that has many rows is always asked for alone. */
async function* readRows(stores: Stores, { workspaceId, ids }: Records, span: Span): AsyncGenerator<Page> {
  const rows = await queryUsage(stores, { workspaceId, ids }, span, { most: MOST_ROWS + 1 });
  if (rows.length <= MOST_ROWS) yield { ids, rows, isMerged: false };
  else if (ids.length === 1) {
    const sums = await queryUsage(stores, { workspaceId, ids }, span, { isMerged: true, most: MOST_ROWS });
    yield { ids, rows: sums, isMerged: true };
  } else {
    const half = Math.ceil(ids.length / 2);
    yield* readRows(stores, { workspaceId, ids: ids.slice(0, half) }, span);
    yield* readRows(stores, { workspaceId, ids: ids.slice(half) }, span);
  }
}

async function queryUsage(
  stores: Stores,
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
  const rows = await readUsage(stores, question, { limit: most, nowMs: stores.redis.clock.now() });
  return rows.map(({ period, billingId = '', usageName = MERGED, micros, events }) => ({
    billingId,
    day: days[period]!,
    name: usageName,
    micros: Number(micros),
    events,
  }));
}

/** Usage without what adjustments, which are told by themselves, are of it. */
function usageOf(rows: UsageRow[], adjustments: Adjustment[]): Usage {
  // All rows, for it may be the name of one, too.
  const isMerged = rows.every(({ name }) => name === MERGED);
  const nameOf = (name: string) => (isMerged ? MERGED : name);
  const adjusted = new Map<string, number>();
  for (const { day, name, micros } of adjustments) {
    const key = `${day} ${nameOf(name)}`;
    adjusted.set(key, (adjusted.get(key) ?? 0) + micros);
  }
  const usage = rows
    .map(({ day, name, micros, events }): Movement => {
      const rest = micros - (adjusted.get(`${day} ${name}`) ?? 0);
      return { day, kind: 'usage', name, balance: 'used', micros: rest, events };
    })
    .filter(({ micros, events }) => micros !== 0 || events! > 0);
  const told = adjustments.map(({ day, name, micros, ...more }): Movement => {
    return { day, kind: 'adjustment', name: nameOf(name), balance: 'used', micros, ...more };
  });
  return {
    movements: [
      ...(usage.length > MOST_OF_A_KIND ? merged(usage) : usage),
      ...(adjustments.some((one) => 'events' in one) ? merged(told) : told),
    ],
    byName: usageByName([...usage, ...told]),
  };
}
