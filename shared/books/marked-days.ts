import type { Query } from '../stores/postgres.ts';

/**
 * The days of some records, by record, whose sums are not, or no longer, complete. Read them before the sums: if a mark is
 * cleared in between, its day is summed from the events without need.
 */
export async function markedDays(sql: Query, ids: string[]): Promise<Map<string, string[]>> {
  const marks = await sql<{ billingId: string; day: string }[]>`
    select billing_id, day from usage_marks where billing_id = any(${ids})`;
  const byRecord = Map.groupBy(marks, (mark) => mark.billingId);
  return new Map([...byRecord].map(([id, ofRecord]) => [id, ofRecord.map(({ day }) => day)]));
}
