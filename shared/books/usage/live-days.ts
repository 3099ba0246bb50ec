import { eachOf, type Query } from '../../stores/postgres.ts';
import { DAY_MS, dateOf, dayNumber } from '../../values/periods.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';

/**
 * Days, since 1970, whose usage is summed from the events: all from `from` on, `days` for every record, and `marked` ones of a
 * record alone. The stored sums of all others are complete.
 */
export type LiveDays = { from: number; days: number[]; marked: { billingId: string; day: number }[] };

type Asked = {
  workspace: AllowedWorkspace;
  /** Only marks of these records; absent: of all, and of usage without a record, whose marks have the workspace's id. */
  billingIds?: readonly string[] | undefined;
  first: number;
  last: number;
  nowMs: number;
};

const MARKED_OF_A_DAY = 100;
const MARKED_IN_ALL = 1_000;

/**
 * The days of a workspace from `first` to `last` that are summed from the events. Read them before the sums: if a mark is cleared
 * in between, its sums are stored already, and the day is read live without need.
 *
 * The last two days are always among them. Redis's clock closes days, and this is ours: while the two are less than a day apart,
 * the answer is right without asking Redis, which may be unavailable. A day with many marks is read live for every
 * record, so that what is sent stays short.
 */
export async function liveDays(sql: Query, { workspace, billingIds, first, last, nowMs }: Asked): Promise<LiveDays> {
  const from = Math.floor(nowMs / DAY_MS) - 1;
  const until = Math.min(last, from - 1);
  const live: LiveDays = { from, days: [], marked: [] };
  if (until < first) return live;
  const rows = await sql<{ day: string; ids: string[]; marks: number }[]>`
    select day, (array_agg(billing_id order by billing_id))[1:${MARKED_OF_A_DAY}] as ids, count(*)::int as marks
    from usage_marks
    where workspace_id = ${workspace} and day between ${dateOf(first)} and ${dateOf(until)}
      ${billingIds ? sql`and billing_id = any(${eachOf(sql, [...billingIds])})` : sql``}
    group by day order by day`;
  for (const { day, ids, marks } of rows) {
    const isMany = marks > ids.length || live.marked.length + marks > MARKED_IN_ALL;
    if (isMany) live.days.push(dayNumber(day));
    else live.marked.push(...ids.map((billingId) => ({ billingId, day: dayNumber(day) })));
  }
  return live;
}
