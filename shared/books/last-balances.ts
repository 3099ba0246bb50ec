import type { Books } from '../stores/clickhouse.ts';
import type { Query } from '../stores/postgres.ts';
import { inGroups, openDayParams, openDaysTable } from './day-sums.ts';
import { markedDays } from './marked-days.ts';

/** The used micro-credits of records after the last of all their events, by record; of those that have events. */
export async function readLastBalances(
  { sql, books }: { sql: Query; books: Books },
  ids: string[],
): Promise<Map<string, number>> {
  const balances = new Map<string, number>();
  for (const some of inGroups(ids, () => 1)) {
    const marks = await markedDays(sql, some);
    const asked = some.map((id) => ({ id, openDays: marks.get(id) ?? [] }));
    for (const together of inGroups(asked, ({ openDays }) => openDays.length)) {
      const answer = await books.client.query({
        query: `
          with ${openDaysTable}
          select billing_id, max(balance).4 from (
            select billing_id, balance from booked_days final
            where billing_id in {ids:Array(String)} and (billing_id, day) not in open_days and numbers > 0
            union all
            select billing_id, (epoch, seq, number, used_micros) from usage_events
            where billing_id in {ids:Array(String)} and (billing_id, day) in open_days and kind != 'witness'
          ) group by billing_id`,
        query_params: openDayParams(together),
        format: 'JSONCompactEachRow',
      });
      for (const [id, micros] of await answer.json<[id: string, micros: string]>()) balances.set(id, Number(micros));
    }
  }
  return balances;
}
