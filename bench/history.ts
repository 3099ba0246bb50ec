import { rollUp } from '../apps/consumer/jobs/rollup.ts';
import { connectClickHouse, JOB_LIMITS } from '../shared/stores/clickhouse.ts';
import { connectPostgres } from '../shared/stores/postgres.ts';
import { showProgress } from './watch.ts';

/** The billing record that gets a long history, and a key of it. */
export type LongRecord = { workspaceId: string; billingId: string; keyId: string; key: string };

const DAYS = 100;
const DAY_MS = 86_400_000;
// One block of rows is one part of a table, and takes about 300 MB while it is made.
const ROWS_AT_ONCE = 1_000_000;
const WITHIN_MS = 600_000;

/** The micro-credits that so many events have used, of which each costs 1 or 2. */
export function usedMicros(events: number): number {
  return events + Math.floor(events / 2);
}

/** Writes the events of a record, spread evenly over the last hundred days, into the books, and sums up the days that are over. */
export async function insertHistory(env: NodeJS.ProcessEnv, record: LongRecord, events: number): Promise<void> {
  const { sql, books, end } = connect(env);
  const now = Date.now();
  const startMs = Math.floor(now / DAY_MS) * DAY_MS - (DAYS - 1) * DAY_MS;
  for (let first = 0; first < events; first += ROWS_AT_ONCE) {
    const count = Math.min(ROWS_AT_ONCE, events - first);
    const part = { ...record, first, count, events, startMs, spanMs: now - 60_000 - startMs };
    await books.client.command({ query: insertPart, query_params: part });
    showProgress('events', first + count, events);
  }
  await sql`
    insert into usage_marks (workspace_id, billing_id, day)
    select ${record.workspaceId}, ${record.billingId}, current_date - generate_series(0, ${DAYS - 1}::int)
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
  await rollUp({ sql, books }, now, new AbortController().signal);
  await end();
}

/**
 * Gives the records of all seeded keys what one has: its grants, and lines of the books like its own, holds with them. Gives some of their
 * ids.
 */
export async function copyAccount(env: NodeJS.ProcessEnv, billingId: string, some: number): Promise<string[]> {
  const { sql, books, end } = connect(env);
  const seeded = sql`b.external_meter_id like 'meter-%'`;
  await sql`set session_replication_role = replica`;
  await sql`
    update billing_records b
    set has_classes = true, last_class = one.last_class, total_micros = one.total_micros, granted_micros = one.granted_micros,
      version = b.version + 1
    from billing_records one where one.id = ${billingId} and ${seeded}`;
  await sql`
    insert into grant_classes select (jsonb_populate_record(c, jsonb_build_object('billing_id', b.id))).*
    from grant_classes c, billing_records b where c.billing_id = ${billingId} and ${seeded}`;
  await sql`
    insert into grants
    select (jsonb_populate_record(g, jsonb_build_object('billing_id', b.id, 'id', 'grant_0' || left(md5(g.id || b.id), 25)))).*
    from grants g, billing_records b where g.billing_id = ${billingId} and ${seeded}`;
  await sql`
    insert into usage_marks (workspace_id, billing_id, day)
    select b.workspace_id, b.id, of_one.day from usage_marks of_one, billing_records b
    where of_one.billing_id = ${billingId} and ${seeded}`;
  await sql`analyze`;
  const values = await sql<{ toRecord: string; toKey: string }[]>`
    select b.id as to_record, min(k.id) as to_key from billing_records b join api_keys k using (workspace_id, external_meter_id)
    where ${seeded} group by b.id order by md5(b.id)`;
  await books.client.command({ query: 'create table copies (toRecord String, toKey String) engine = Memory' });
  await books.client.insert({ table: 'copies', values, format: 'JSONEachRow' });
  await books.client.command({ query: COPY_LINES, query_params: { billingId } });
  await end();
  return values.slice(0, some).map(({ toRecord }) => toRecord);
}

const copyOf = (id: string) => `concat('0', lower(substring(hex(MD5(concat(${id}, toRecord))), 1, 25)))`;
const COPY_LINES = `
  insert into usage_events
  select * except (toRecord, toKey) replace (
    toRecord as billing_id, toKey as key_id, concat('evt_', ${copyOf('substring(event_id, 5)')}) as event_id,
    if(hold_id = '', '', ${copyOf('hold_id')}) as hold_id, replaceAll(detail, key_id, toKey) as detail)
  from (select * from usage_events final where billing_id = {billingId:String}) as lines cross join copies
  settings prefer_column_name_to_alias = 1`;

const insertPart = `
  insert into usage_events (workspace_id, billing_id, day, event_id, kind, key_id, usage_name, cost_micros, used_micros, epoch, seq,
                            time, inserted_at)
  with number as n, n + 1 as done,
       {startMs:UInt64} + intDiv(n * {spanMs:UInt64}, {events:UInt64}) as ms, fromUnixTimestamp64Milli(toInt64(ms), 'UTC') as at
  select {workspaceId:String}, {billingId:String}, toDate(at),
         lower(concat('evt_0', substring(hex(toUInt64(ms)), 6), substring(hex(cityHash64(n)), 3))), 'verification',
         {keyId:String}, if(modulo(n, 2) = 0, 'tokens', 'requests'), 1 + modulo(n, 2), done + intDiv(done, 2), 1, done, at, at
  from numbers({first:UInt64}, {count:UInt64})
  settings max_threads = 2, max_insert_threads = 1, min_insert_block_size_rows = ${ROWS_AT_ONCE}`;

function connect(env: NodeJS.ProcessEnv) {
  const sql = connectPostgres(env.DATABASE_URL!, { max: 1, statementTimeoutMs: 0 });
  const books = connectClickHouse(env.CLICKHOUSE_URL!, '', JOB_LIMITS, WITHIN_MS);
  return { sql, books, end: () => Promise.all([sql.end(), books.close()]) };
}
