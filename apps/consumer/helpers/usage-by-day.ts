import { allowWorkspace } from '../../../shared/books/usage/allowed-workspace.ts';
import { readUsage, type UsageStores } from '../../../shared/books/usage/query.ts';
import { DAY_MS, dateOf, daysOfUtc } from '../../../shared/values/periods.ts';

/** What `/usage` bills of a record, by day and usage name. Every day that is not marked comes from its stored sums. */
export async function usageByDay(stores: UsageStores, record: { workspaceId: string; billingId: string }) {
  const periods = daysOfUtc('2020-01-01', dateOf(Math.floor(Date.now() / DAY_MS)));
  const question = {
    workspace: allowWorkspace(record.workspaceId),
    periods,
    groupBy: ['usageName' as const],
    filters: { billingIds: [record.billingId] },
  };
  const rows = await readUsage(stores, question, { limit: 1_000, nowMs: Date.now() + 2 * DAY_MS });
  return rows.map(({ period, usageName, micros, events }) => ({
    day: dateOf(periods.days[period]!),
    usageName,
    costMicros: Number(micros),
    events,
  }));
}
