import { eachOf, type Query } from '../../stores/postgres.ts';
import {
  byRecord,
  lessByName,
  sumByName,
  type Balances,
  type ByName,
  type Movement,
  type Records,
} from './movements.ts';
import type { Proof } from './proof.ts';
import type { Span } from './span.ts';
import { readUsedByName } from './usage.ts';
import type { Stores } from '../reconciling/reconcile.ts';

/** The line of a record in a closed month. */
export type Line = {
  billingId: string;
  month: string;
  endMs: number;
  opening: Balances;
  closing: Balances;
  byName: ByName;
  movements: Movement[];
  proof: Proof;
};

/** A month of a workspace that is closed, or being closed. */
export type ClosedMonth = {
  workspaceId: string;
  month: string;
  teamId: string;
  timezone: string;
  startMs: number;
  endMs: number;
  startDay: string;
  endDay: string;
  acceptsDifferences: boolean;
  records: number | null;
  closedAt: Date | null;
};

/** The columns of a ClosedMonth. */
export const monthColumns = (sql: Query) => sql`
  workspace_id, month, team_id, timezone, start_ms, end_ms, start_day, end_day, accepts_differences, records, closed_at`;

/** The columns of a Line. */
export const lineColumns = (sql: Query) => sql`
  billing_id, month, end_ms, by_name, movements, proof,
  json_build_object('totalMicros', opening_total_micros, 'usedMicros', opening_used_micros, 'expiredMicros', opening_expired_micros)
    as opening,
  ${closingOf(sql)}`;

const closingOf = (sql: Query) => sql`
  json_build_object('totalMicros', total_micros, 'usedMicros', used_micros, 'expiredMicros', expired_micros) as closing`;

/** What a line hands on to what follows its month. */
export type LastLine = Pick<Line, 'month' | 'endMs' | 'closing'>;

/** The last line of each record that ends at or before an instant, by record. */
export async function linesBefore(sql: Query, ids: string[], ms: number): Promise<Map<string, LastLine>> {
  const rows = await sql<(LastLine & { billingId: string })[]>`
    select l.* from unnest(${ids}::text[]) as asked (id) cross join lateral (
      select billing_id, month, end_ms, ${closingOf(sql)} from statement_lines
      where billing_id = asked.id and end_ms <= ${ms} order by end_ms desc limit 1) l`;
  return new Map(rows.map((row) => [row.billingId, row]));
}

/** Something late of a closed month: what its line lacks, and from when on it is told. */
export type Late = { month: string; name: string; micros: number; events: number; atMs: number };
/** What is to be told of a closed month, and all that is told then. */
export type LateMonth = { billingId: string; month: string; mark: number; told: ByName };

/**
 * Reads what is late, by record: what lines after an instant have told, from where they begin, and what no line has told yet,
 * from the end of the last one.
 */
export async function readLate(
  stores: Stores,
  records: Records,
  fromMs: number,
): Promise<{ late: Map<string, Late[]>; open: LateMonth[] }> {
  const { sql } = stores;
  const told = await sql<(Omit<Late, 'atMs'> & { billingId: string; startMs: number })[]>`
    select l.billing_id, m.start_ms, one ->> 'month' as month, one ->> 'name' as name, (one ->> 'micros')::bigint as micros,
           coalesce((one ->> 'events')::bigint, 0) as events
    from statement_lines l
    join workspace_months m on m.workspace_id = l.workspace_id and m.month = l.month
    cross join lateral json_array_elements(l.movements) with ordinality as movement (one, place)
    where l.billing_id = any(${eachOf(sql, records.ids)}) and l.end_ms > ${fromMs}
      and exists (select from late_months o where o.billing_id = l.billing_id)
      and one ->> 'kind' = 'late' and one ->> 'month' is not null
    order by l.billing_id, l.end_ms, place`;
  const late = told.map(({ billingId, startMs, month, name, micros, events }): [billingId: string, late: Late] => [
    billingId,
    { month, name, micros, events, atMs: startMs },
  ]);

  const open = await openMonths(sql, records.ids);
  const notes: LateMonth[] = [];
  for (const [month, ofMonth] of Map.groupBy(open, (one) => one.month)) {
    const { timezone, startMs, endMs, startDay, endDay } = ofMonth[0]!;
    const span: Span = { timezone, startMs, endMs, startDay, endDay, days: [startDay], starts: [startMs] };
    const ids = ofMonth.map(({ billingId }) => billingId);
    const used = await readUsedByName(stores, { ...records, ids }, span);
    for (const { billingId, byName, told: before, mark, lastMs } of ofMonth) {
      const known = sumByName([...rowsOf(byName ?? {}), ...rowsOf(before)]);
      const more = lessByName(used.get(billingId) ?? {}, known);
      for (const one of more) late.push([billingId, { month, ...one, atMs: lastMs }]);
      notes.push({ billingId, month, mark, told: sumByName([...rowsOf(before), ...more]) });
    }
  }
  return { late: byRecord(late), open: notes };
}

type Open = Pick<ClosedMonth, 'month' | 'timezone' | 'startMs' | 'endMs' | 'startDay' | 'endDay'> & {
  billingId: string;
  told: ByName;
  mark: number;
  byName: ByName | null;
  lastMs: number;
};

/** Months of which something may be to tell, and that have a line or never will. */
async function openMonths(sql: Query, ids: string[]): Promise<Open[]> {
  return sql<Open[]>`
    select o.billing_id, o.month, o.told, o.mark, l.by_name, m.timezone, m.start_ms, m.end_ms, m.start_day, m.end_day,
           (select max(end_ms) from statement_lines last where last.billing_id = o.billing_id) as last_ms
    from late_months o
    join billing_records b on b.id = o.billing_id
    join workspace_months m on m.workspace_id = b.workspace_id and m.month = o.month
    join statement_lines l on l.workspace_id = m.workspace_id and l.month = m.month and l.billing_id = o.billing_id
    where o.billing_id = any(${eachOf(sql, ids)}) and o.is_open
    order by o.billing_id, o.month`;
}

function rowsOf(sums: ByName) {
  return Object.entries(sums).map(([name, sum]) => ({ name, ...sum }));
}
