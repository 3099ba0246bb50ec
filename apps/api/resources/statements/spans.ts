import { invalidField } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { monthColumns, type ClosedMonth } from '../../../../shared/books/statements/lines.ts';
import { monthAfter, spanOfDays, spanOfMonth, type Span } from '../../../../shared/books/statements/span.ts';

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
  if (closing) return { span: spanOfClosed(closing), closing };
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

/** The span of a month that is closed, or being closed, as it was then. */
export function spanOfClosed({ month, timezone, startMs, startDay }: ClosedMonth): Span {
  return spanOfMonth(month, timezone, { startMs, startDay });
}

function daysFrom(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 86_400_000 + 1;
}
