import type { Books } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { markDays, type RecordDay } from '../../stores/usage-marks.ts';

const WORKSPACES_AT_ONCE = 50;
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

/**
 * Marks every day that has more events than were summed up, and gives how many there are. A Postgres that is older than the
 * books has lost the marks that were made since, and whoever made them does not make them again.
 */
export async function markUnsummedDays({ sql, books }: { sql: Query; books: Books }): Promise<number> {
  let marked = 0;
  for (let after = ''; ;) {
    const rows = await sql<{ id: string }[]>`
      select id from workspaces where id > ${after} order by id limit ${WORKSPACES_AT_ONCE}`;
    const ids = rows.map(({ id }) => id);
    for await (const days of ids.length > 0 ? unsummedDays(books, ids) : []) {
      await markDays(sql, days);
      marked += days.length;
    }
    if (ids.length < WORKSPACES_AT_ONCE) return marked;
    after = ids.at(-1)!;
  }
}

// An event that is there twice, until its parts are merged, may mark a day that is summed up: that costs one look.
async function* unsummedDays({ client }: Books, workspaceIds: string[]): AsyncGenerator<RecordDay[]> {
  const answer = await client.query({
    query: `
      select workspace_id, billing_id, toString(day) from (
        select workspace_id, billing_id, day, toInt64(count()) as events from usage_events
        where workspace_id in {workspaceIds:Array(String)} group by workspace_id, billing_id, day
        union all
        select of_record.workspace_id, billing_id, day, -toInt64(sum(all_events)) from booked_days final
        inner join (
          select distinct workspace_id, billing_id from usage_events
          where workspace_id in {workspaceIds:Array(String)} and billing_id != ''
        ) as of_record using billing_id
        where billing_id in (
          select billing_id from usage_events where workspace_id in {workspaceIds:Array(String)} and billing_id != '')
        group by workspace_id, billing_id, day
        union all
        select workspace_id, billing_id, day, -toInt64(sum(all_events)) from usage_days final
        where workspace_id in {workspaceIds:Array(String)} and billing_id = '' group by workspace_id, billing_id, day
      ) group by workspace_id, billing_id, day having sum(events) > 0`,
    query_params: { workspaceIds },
    clickhouse_settings: { max_execution_time: READ_SECONDS },
    format: 'JSONCompactEachRow',
  });
  for await (const rows of answer.stream<[workspaceId: string, billingId: string, day: string]>())
    yield rows.map((row) => row.json()).map(([workspaceId, billingId, day]) => ({ workspaceId, billingId, day }));
}
