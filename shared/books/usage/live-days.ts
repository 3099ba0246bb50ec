import { eachOf, type Query } from '../../stores/postgres.ts';
import { markedId } from '../../stores/usage-marks.ts';
import { DAY_MS, dateOf, dayNumber } from '../../values/periods.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';

/** Days, since 1970, whose usage is summed from the events: all from `from` on, and `days`. The stored sums of all others are complete. */
export type LiveDays = { from: number; days: number[] };

type Asked = {
  workspace: AllowedWorkspace;
  /** Only marks of these records; absent: of all, and of usage without a record, whose marks have the workspace's id. */
  billingIds?: readonly string[] | undefined;
  first: number;
  last: number;
  nowMs: number;
};

/**
 * The days of a workspace from `first` to `last` that are summed from the events. Read them before the sums: if a mark is cleared
 * in between, its sums are stored already, and the day is read live without need. A marked day is read live for every record: it is
 * summed up again within about a minute.
 *
 * The last two days are always among them. Redis's clock closes days, and this is ours: while the two are less than a day apart,
 * the answer is right without asking Redis, which may be unavailable.
 */
export async function liveDays(sql: Query, { workspace, billingIds, first, last, nowMs }: Asked): Promise<LiveDays> {
  const from = Math.floor(nowMs / DAY_MS) - 1;
  const until = Math.min(last, from - 1);
  if (until < first) return { from, days: [] };
  const markOf = (billingId: string) => markedId({ workspaceId: workspace, billingId });
  const rows = await sql<{ day: string }[]>`
    select distinct day from usage_marks
    where workspace_id = ${workspace} and day between ${dateOf(first)} and ${dateOf(until)}
      ${billingIds ? sql`and billing_id = any(${eachOf(sql, billingIds.map(markOf))})` : sql``}`;
  return { from, days: rows.map(({ day }) => dayNumber(day)) };
}
