import type { Books } from '../stores/clickhouse.ts';
import { eachOf, type Query } from '../stores/postgres.ts';
import { billingRefsAfter } from './billing-refs.ts';
import { inGroups } from './day-sums.ts';

export type RecordDay = { billingId: string; day: string };

const RECORDS_AT_ONCE = 1_000;
const DAYS_AT_ONCE = 10_000;
const READ_SECONDS = 300;

/**
 * The days of some records, by record, whose sums are not, or no longer, complete. Read them before the sums: if a mark is
 * cleared in between, its day is summed from the events without need.
 */
export async function markedDays(sql: Query, ids: string[]): Promise<Map<string, string[]>> {
  const marks = await sql<{ billingId: string; day: string }[]>`
    select billing_id, day from usage_marks where billing_id = any(${eachOf(sql, ids)})`;
  const byRecord = Map.groupBy(marks, (mark) => mark.billingId);
  return new Map([...byRecord].map(([id, ofRecord]) => [id, ofRecord.map(({ day }) => day)]));
}

/** Marks days of records: they are summed from their events until they are rolled up again. */
export async function markDays(sql: Query, days: RecordDay[]): Promise<void> {
  for (let i = 0; i < days.length; i += DAYS_AT_ONCE) {
    const some = days.slice(i, i + DAYS_AT_ONCE);
    // Always in one order, so that two processes never wait for each other.
    await sql`
      insert into usage_marks (billing_id, day)
      select billing_id, day
      from unnest(${some.map(({ billingId }) => billingId)}::text[], ${some.map(({ day }) => day)}::date[]) as one (billing_id, day)
      order by billing_id, day
      on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
  }
}

/**
 * Marks every day that has more events than were summed up, and gives how many there are. A Postgres that is older than the
 * books has lost the marks that were made since, and whoever made them does not make them again.
 */
export async function markUnsummedDays({ sql, books }: { sql: Query; books: Books }): Promise<number> {
  let marked = 0;
  for (let after = ''; ;) {
    const records = await billingRefsAfter(sql, 'all', after, RECORDS_AT_ONCE);
    for (const some of inGroups(records, () => 1)) {
      const days = await unsummedDays(
        books,
        some.map(({ id }) => id),
      );
      await markDays(sql, days);
      marked += days.length;
    }
    if (records.length < RECORDS_AT_ONCE) return marked;
    after = records.at(-1)!.id;
  }
}

// An event that is there twice, until its parts are merged, may mark a day that is summed up: that costs one look.
async function unsummedDays({ client }: Books, ids: string[]): Promise<RecordDay[]> {
  const answer = await client.query({
    query: `
      select billing_id, toString(day) from (
        select billing_id, day, toInt64(count()) as events from usage_events
        where billing_id in {ids:Array(String)} group by billing_id, day
        union all
        select billing_id, day, -toInt64(sum(all_events)) from booked_days final
        where billing_id in {ids:Array(String)} group by billing_id, day
      ) group by billing_id, day having sum(events) > 0`,
    query_params: { ids },
    clickhouse_settings: { max_execution_time: READ_SECONDS },
    format: 'JSONCompactEachRow',
  });
  return (await answer.json<[billingId: string, day: string]>()).map(([billingId, day]) => ({ billingId, day }));
}
