import type { Query, Transaction } from '../../stores/postgres.ts';
import { chunks } from '../../values/chunks.ts';
import type { BillingRef } from '../billing-refs.ts';
import { monthColumns, type ClosedMonth, type LateMonth } from './lines.ts';
import { monthAfter, monthAt, spanOfMonth, type Span } from './span.ts';
import type { Statement } from './statements.ts';

/** The month of a workspace that can be closed next: the one after the last, or the first one that it has. */
export type NextMonth = {
  month: string;
  span: Span;
  teamId: string;
  isDeleted: boolean;
  /** The month before, while it is still closing: each line begins with the one before it, so the next one waits. */
  closing: string | null;
};

const LINES_AT_ONCE = 20;

/** Tells which month of a workspace is next. The caller holds the lock of the workspace's row, which those who book wait for. */
export async function nextMonth(tx: Query, workspaceId: string): Promise<NextMonth> {
  const [row] = await tx<[Known]>`
    select w.timezone, w.team_id, floor(extract(epoch from w.created_at) * 1000)::bigint as made_ms,
           floor(extract(epoch from w.deleted_at) * 1000)::bigint as deleted_ms, last.month, last.end_ms, last.end_day,
           (select min(m.month) from workspace_months m where m.workspace_id = w.id and m.closed_at is null) as closing,
           case when last.month is null then (
             select to_char(min(a.day), 'YYYY-MM') from billing_records b join adjustments a on a.billing_id = b.id
             where b.workspace_id = w.id and a.amount_micros <> 0) end as booked
    from workspaces w left join lateral (
      select month, end_ms, end_day from workspace_months m where m.workspace_id = w.id order by end_ms desc limit 1) last on true
    where w.id = ${workspaceId}`;
  const { timezone, teamId, madeMs, deletedMs, month: last, endMs, endDay, closing, booked } = row;
  const made = monthAt(madeMs, timezone);
  // A zone that the workspace moved to may begin its first month after a day that something is booked on.
  const first = booked !== null && booked < made ? booked : made;
  const month = last === null ? first : monthAfter(last);
  // It begins where the last one ended, whatever the zone is now: no instant is in two months, or in none.
  const span = spanOfMonth(month, timezone, last === null ? undefined : { startMs: endMs!, startDay: endDay! });
  return { month, span, teamId, isDeleted: deletedMs !== null && deletedMs < span.startMs, closing };
}

type Known = {
  timezone: string;
  teamId: string;
  madeMs: number;
  deletedMs: number | null;
  month: string | null;
  endMs: number | null;
  endDay: string | null;
  closing: string | null;
  /** The month of the first day that something was booked on, while no month is closed. */
  booked: string | null;
};

/**
 * Begins to close a month: from the commit on nothing is booked into it, and events of it that arrive are noted as late. Its sums
 * may be read once all transactions have ended that do not see it.
 */
export async function beginMonth(
  tx: Query,
  workspaceId: string,
  { month, span, teamId }: NextMonth,
  { acceptsDifferences }: { acceptsDifferences: boolean },
): Promise<ClosedMonth> {
  const [row] = await tx<[ClosedMonth]>`
    insert into workspace_months (workspace_id, month, team_id, timezone, start_ms, end_ms, start_day, end_day, accepts_differences)
    values (${workspaceId}, ${month}, ${teamId}, ${span.timezone}, ${span.startMs}, ${span.endMs}, ${span.startDay}, ${span.endDay},
            ${acceptsDifferences})
    returning ${monthColumns(tx)}`;
  return row;
}

/** Records of a month without a line, after one in the order of ids; those made later have none, unless something is booked in it. */
export async function recordsWithoutLine(
  sql: Query,
  { workspaceId, month, endMs, endDay }: ClosedMonth,
  after: string,
  limit: number,
): Promise<BillingRef[]> {
  return sql<BillingRef[]>`
    select b.id, b.shard, b.workspace_id, b.external_meter_id from billing_records b
    where b.workspace_id = ${workspaceId} and b.id > ${after}
      and ${isIn(sql, { endMs, endDay })}
      and not exists (select from statement_lines l
                      where l.workspace_id = ${workspaceId} and l.month = ${month} and l.billing_id = b.id)
    order by b.id limit ${limit}`;
}

/** Whether a record `b` has a part in a span: it was made before its end, or something is booked on a day before. */
export function isIn(sql: Query, { endMs, endDay }: { endMs: number; endDay: string }) {
  return sql`(b.created_at < to_timestamp(${endMs}::float8 / 1000)
    or exists (select from adjustments a where a.billing_id = b.id and a.amount_micros <> 0 and a.day < ${endDay}))`;
}

/**
 * Stores lines of a month that is being closed, and what they tell of earlier months. A line that is there stays: another process
 * stored it. What was noted again meanwhile stays open.
 */
export async function storeLines(
  tx: Transaction,
  { workspaceId, month, teamId, endMs }: ClosedMonth,
  statements: Statement[],
  late: LateMonth[],
): Promise<void> {
  const [open] = await tx`
    select from workspace_months
    where workspace_id = ${workspaceId} and month = ${month} and closed_at is null for no key update`;
  if (!open) return;
  const stored = new Set<string>();
  for (const some of chunks(statements, LINES_AT_ONCE)) {
    const rows = await tx<{ billingId: string }[]>`
      insert into statement_lines (
        workspace_id, month, team_id, end_ms, billing_id, opening_total_micros, opening_used_micros, opening_expired_micros,
        total_micros, used_micros, expired_micros, by_name, movements, proof)
      select ${workspaceId}, ${month}, ${teamId}, ${endMs}::bigint, line ->> 'billingId',
             (line #>> '{opening,totalMicros}')::bigint, (line #>> '{opening,usedMicros}')::bigint,
             (line #>> '{opening,expiredMicros}')::bigint, (line #>> '{closing,totalMicros}')::bigint,
             (line #>> '{closing,usedMicros}')::bigint, (line #>> '{closing,expiredMicros}')::bigint,
             line -> 'byName', line -> 'movements', line -> 'proof'
      from json_array_elements(${JSON.stringify(some)}::text::json) as line
      on conflict do nothing
      returning billing_id`;
    for (const { billingId } of rows) stored.add(billingId);
  }
  for (const one of late.filter(({ billingId }) => stored.has(billingId)))
    await tx`
      update late_months set told = ${JSON.stringify(one.told)}::text::json, is_open = mark <> ${one.mark}
      where billing_id = ${one.billingId} and month = ${one.month}`;
}

/** The first day that something may be booked on: of the workspace's first month, or the one after its closed months. */
export async function firstOpenDay(sql: Query, workspaceId: string): Promise<{ openDay: string; isFirst: boolean }> {
  const [{ timezone, madeMs, endDay }] = await sql<[{ timezone: string; madeMs: number; endDay: string | null }]>`
    select w.timezone, floor(extract(epoch from w.created_at) * 1000)::bigint as made_ms,
           (select end_day from workspace_months where workspace_id = w.id order by end_ms desc limit 1) as end_day
    from workspaces w where w.id = ${workspaceId}`;
  return { openDay: endDay ?? `${monthAt(madeMs, timezone)}-01`, isFirst: endDay === null };
}
