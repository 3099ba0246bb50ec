import type { Books } from '../../stores/clickhouse.ts';
import { inGroups, IS_OVER, openDayParams, openDaysTable, type WithOpenDays } from '../sums/day-sums.ts';

/**
 * What /usage bills for the days of some records that are not open, in micro-credits by record: the sums of usage_days.
 * Open days it sums from the events, as everybody does.
 */
export async function readBilled(books: Books, records: WithOpenDays[]): Promise<Map<string, number>> {
  const billed = new Map<string, number>();
  for (const some of inGroups(records, ({ openDays }) => openDays.length)) {
    const answer = await books.client.query({
      query: `
        with ${openDaysTable}
        select billing_id, sum(cost_micros) from usage_days final
        where workspace_id in {workspaceIds:Array(String)} and billing_id in {ids:Array(String)} and ${IS_OVER}
        group by billing_id`,
      query_params: openDayParams(some),
      format: 'JSONCompactEachRow',
    });
    for (const [id, micros] of await answer.json<[id: string, micros: string]>()) billed.set(id, Number(micros));
  }
  return billed;
}

/** The days of a record for which usage_days has another cost than booked_days; on one of them `/usage` bills a wrong sum. */
export async function wronglyBilledDays(books: Books, record: WithOpenDays): Promise<string[]> {
  const answer = await books.client.query({
    query: `
      with ${openDaysTable}
      select toString(day) from (
        select day, cost_micros from usage_days final
        where workspace_id in {workspaceIds:Array(String)} and billing_id in {ids:Array(String)} and ${IS_OVER}
        union all
        select day, -cost_micros from booked_days final
        where billing_id in {ids:Array(String)} and ${IS_OVER}
      ) group by day having sum(cost_micros) != 0 order by day`,
    query_params: openDayParams([record]),
    format: 'JSONCompactEachRow',
  });
  return (await answer.json<[day: string]>()).map(([day]) => day);
}
