import { invalidField } from '../../../../shared/contract/errors.ts';
import type { BillingRef } from '../../../../shared/books/billing-refs.ts';
import type { Stores } from '../../../../shared/books/reconciling/reconcile.ts';
import { lineColumns, monthColumns, type ClosedMonth, type Line } from '../../../../shared/books/statements/lines.ts';
import { monthAfter, spanOfDays, spanOfMonth, type Span } from '../../../../shared/books/statements/span.ts';
import { makeStatements, type Statement } from '../../../../shared/books/statements/statements.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';

/** What a request asks a statement for. */
export type AskedSpan = { month?: string; from?: string; to?: string };
/** The span, and its month where that is closed or being closed. */
export type FoundSpan = { span: Span; closing: ClosedMonth | undefined };

const MOST_DAYS = 366;

/** The span that is asked for in a workspace's time zone; what follows a closed month begins where that one ended. */
export async function findSpan(sql: Query, workspaceId: string, { month, from, to }: AskedSpan): Promise<FoundSpan> {
  if ((month === undefined) === (from === undefined && to === undefined))
    throw invalidField('month', 'is required, or from and to, not both');
  if (month === undefined && (from === undefined || to === undefined || from > to))
    throw invalidField('from', 'is required together with to, and must not be after it');
  if (from !== undefined && daysFrom(from, to!) > MOST_DAYS)
    throw invalidField('to', `must be at most ${MOST_DAYS} days after from`);
  const [workspace] = await sql<{ timezone: string }[]>`select timezone from workspaces where id = ${workspaceId}`;
  const timezone = workspace?.timezone ?? 'UTC';
  const [closing] =
    month === undefined
      ? []
      : await sql<ClosedMonth[]>`
          select ${monthColumns(sql)} from workspace_months where workspace_id = ${workspaceId} and month = ${month}`;
  // As it was when it was closed.
  if (closing) return { span: spanOfMonth(closing.month, closing.timezone, closing), closing };
  const [last] = await sql<{ month: string; endMs: number; endDay: string }[]>`
    select month, end_ms, end_day from workspace_months where workspace_id = ${workspaceId} order by end_ms desc limit 1`;
  const after = last && { startMs: last.endMs, startDay: last.endDay };
  if (month !== undefined)
    return {
      span: spanOfMonth(month, timezone, last && month === monthAfter(last.month) ? after : undefined),
      closing: undefined,
    };
  return { span: spanOfDays(from!, to!, timezone, after?.startDay === from ? after : undefined), closing: undefined };
}

/** A statement, and whether it is of a month that is closed for its record. */
export type ReadStatement = Omit<Statement, 'byName'> & { closed: boolean };
type Wanted = { workspaceId: string; billings: BillingRef[]; found: FoundSpan; nowMs: number; patienceMs: number };

/** The statements of some records by their ids: of a closed month as they were stored, else from the books. */
export async function readStatements(
  { sql, redis, books }: Stores,
  { billings, found: { span, closing }, ...wanted }: Wanted,
): Promise<Map<string, ReadStatement>> {
  const rows = closing
    ? await sql<Line[]>`
        select ${lineColumns(sql)} from statement_lines
        where workspace_id = ${wanted.workspaceId} and month = ${closing.month}
          and billing_id = any(${billings.map(({ id }) => id)})`
    : [];
  const read = new Map<string, ReadStatement>(rows.map((row) => [row.billingId, { ...row, closed: true }]));
  const others = billings.filter(({ id }) => !read.has(id));
  if (others.length === 0) return read;
  const { statements } = await makeStatements({ sql, redis, books }, { ...wanted, billings: others, span });
  for (const one of statements) read.set(one.billingId, { ...one, closed: false });
  return read;
}

function daysFrom(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 86_400_000 + 1;
}
