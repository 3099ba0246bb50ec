import { readRows, type Books } from '../../stores/clickhouse.ts';
import { inGroups, IS_OVER, openDayParams, openDaysTable, type WithOpenDays } from '../sums/day-sums.ts';

/** A day for which `/usage` bills another sum than its events have: so many micro-credits more, or less below 0. */
export type WrongDay = { day: string; micros: number };

/**
 * The days of some records that are not open for which usage_days has another cost than booked_days, by record. Open days `/usage` sums
 * from the events, as everybody does.
 */
export async function wronglyBilledDays(books: Books, records: WithOpenDays[]): Promise<Map<string, WrongDay[]>> {
  const found: [id: string, WrongDay][] = [];
  for (const some of inGroups(records, ({ openDays }) => openDays.length)) {
    const rows = await readRows<[id: string, day: string, micros: string]>(
      books,
      `
        with ${openDaysTable}
        select billing_id, toString(day), sum(cost_micros) as difference from (
          select billing_id, day, cost_micros from usage_days final
          where workspace_id in {workspaceIds:Array(String)} and billing_id in {ids:Array(String)} and ${IS_OVER}
          union all
          select billing_id, day, -cost_micros from booked_days final
          where billing_id in {ids:Array(String)} and ${IS_OVER}
        ) group by billing_id, day having difference != 0 order by billing_id, day`,
      openDayParams(some),
    );
    for (const [id, day, micros] of rows) found.push([id, { day, micros: Number(micros) }]);
  }
  return new Map([...Map.groupBy(found, ([id]) => id)].map(([id, ofRecord]) => [id, ofRecord.map(([, day]) => day)]));
}
