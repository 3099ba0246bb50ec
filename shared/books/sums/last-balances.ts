import type { Books } from '../../stores/clickhouse.ts';
import type { Query } from '../../stores/postgres.ts';
import { inGroups, IS_OPEN, IS_OVER, openDayParams, openDaysTable, type RecordRef } from './day-sums.ts';
import { markedDays } from './marked-days.ts';

/** The used and reserved micro-credits of a record after the last of all its events, and what all of them let expire. */
export type LastBalance = { usedMicros: number; heldMicros: number; expiredMicros: number };

/** The last balances of records, by record; of those that have events. */
export async function readLastBalances(
  { sql, books }: { sql: Query; books: Books },
  records: RecordRef[],
): Promise<Map<string, LastBalance>> {
  const balances = new Map<string, LastBalance>();
  for (const some of inGroups(records, () => 1)) {
    const marks = await markedDays(
      sql,
      some.map(({ id }) => id),
    );
    const asked = some.map((one) => ({ ...one, openDays: marks.get(one.id) ?? [] }));
    for (const together of inGroups(asked, ({ openDays }) => openDays.length)) {
      const answer = await books.client.query({
        query: `
          with ${openDaysTable}
          select billing_id, max((balance, held_micros)).1.4, max((balance, held_micros)).2, sum(expired) from (
            select billing_id, balance, held_micros, arraySum(classes.4) as expired from booked_days final
            where billing_id in {ids:Array(String)} and ${IS_OVER}
            union all
            select billing_id, (epoch, seq, number, used_micros), held_micros, arraySum(classes.4) from usage_events final
            where ${IS_OPEN}
          ) group by billing_id`,
        query_params: openDayParams(together),
        format: 'JSONCompactEachRow',
      });
      type Row = [id: string, used: string, held: string, expired: string];
      for (const [id, used, held, expired] of await answer.json<Row>())
        balances.set(id, { usedMicros: Number(used), heldMicros: Number(held), expiredMicros: Number(expired) });
    }
  }
  return balances;
}
