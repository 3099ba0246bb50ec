import { Type } from 'typebox';
import { MOST_FILTERED_RECORDS, type UsageQuestion } from '../../../../shared/books/usage/sql.ts';
import type { Portal } from '../../../../shared/contract/caller.ts';
import { day, named, object, plainText } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { route } from '../../http/route.ts';
import { usageOfPortal } from '../../resources/access/access.ts';
import { portalOf } from '../../resources/access/sessions.ts';
import { readPeriods } from '../../resources/usage-range.ts';
import { MOST_ROWS, presentDays, readWholeUsage, usageOfPeriod } from '../../resources/usage-rows.ts';

const { totalBillingUsage, events } = usageOfPeriod.properties;
const usageRow = named(
  'PortalUsageRow',
  object({
    day: day('the day'),
    billingUsageName: plainText(128, 'what is counted', 'tokens'),
    totalBillingUsage,
    events,
  }),
);

export const getPortalUsage = route('get', '/api/v1/portal/usage', {
  summary: "Usage of the customer's own API keys, of each day and usage name",
  description: 'Days are those of UTC. Corrections belong to no key: the statement has them.',
  portal: 'session',
  query: object({
    from: Type.Optional(day('first day; default 30 days before `to`')),
    to: Type.Optional(day('last day; default today')),
  }),
  response: object({ data: Type.Array(usageRow, { maxItems: MOST_ROWS }) }),
  errors: ['usage_too_large', 'usage_too_slow', 'too_many_events', 'usage_unavailable'],

  async handle({ sql, query, caller, books, clock }) {
    const nowMs = clock.now();
    const portal = portalOf(caller);
    const question: UsageQuestion = {
      workspace: usageOfPortal(portal),
      periods: readPeriods(query, nowMs),
      groupBy: ['usageName'],
      filters: { customerId: portal.customerId, ...(await recordsOf(sql, portal)) },
    };
    return { data: presentDays(question, await readWholeUsage({ sql, books }, question, nowMs)) };
  },
});

// The books are ordered by record: without those of the customer's keys, all usage of the workspace is read, of which only the
// customer's counts. So it is for a customer with more records than a question names. What has no record has an empty name there.
async function recordsOf(sql: Query, { workspaceId, customerId }: Portal): Promise<{ billingIds?: string[] }> {
  const rows = await sql<{ id: string }[]>`
    select id from billing_records b
    where workspace_id = ${workspaceId} and external_meter_id in (
      select external_meter_id from api_keys where workspace_id = ${workspaceId} and customer_id = ${customerId})
    limit ${MOST_FILTERED_RECORDS}`;
  return rows.length < MOST_FILTERED_RECORDS ? { billingIds: ['', ...rows.map(({ id }) => id)] } : {};
}
