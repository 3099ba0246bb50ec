import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { rollUp } from '../apps/consumer/jobs/rollup.ts';
import { dayOf } from '../shared/events/event.ts';
import { connectClickHouse } from '../shared/stores/clickhouse.ts';
import { connectPostgres } from '../shared/stores/postgres.ts';
import { showProgress } from './watch.ts';

/** The billing record that gets a long history, and a key of it. */
export type LongRecord = { workspaceId: string; billingId: string; keyId: string; key: string };

const DAYS = 100;
const DAY_MS = 86_400_000;
/** Costs repeat after so many events: 1, 2, 3 … micro-credits. */
const COSTS = 1_000;
const SUM_OF_COSTS = (COSTS * (COSTS + 1)) / 2;
// One block of rows is one part of a table, and takes about 300 MB while it is made.
const ROWS_AT_ONCE = 1_000_000;
const WITHIN_MS = 600_000;

/** The micro-credits that so many events have used. */
export function usedMicros(events: number): number {
  const rest = events % COSTS;
  return Math.floor(events / COSTS) * SUM_OF_COSTS + (rest * (rest + 1)) / 2;
}

/** Writes the events of a record, spread evenly over the last hundred days, into the books, and sums up the days that are over. */
export async function insertHistory(env: NodeJS.ProcessEnv, record: LongRecord, events: number): Promise<void> {
  const { workspaceId, billingId, keyId } = record;
  const now = Date.now();
  const sql = connectPostgres(env.DATABASE_URL!, { max: 1, statementTimeoutMs: 0 });
  const books = connectClickHouse(env.CLICKHOUSE_URL!);
  const client = createClient({
    url: env.CLICKHOUSE_URL!,
    request_timeout: WITHIN_MS,
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: { max_threads: 2, max_insert_threads: '1', min_insert_block_size_rows: String(ROWS_AT_ONCE) },
  });
  const days: string[] = [];
  for (let day = 0; day < DAYS; day++) {
    const [first, end] = [Math.ceil((day * events) / DAYS), Math.ceil(((day + 1) * events) / DAYS)];
    const startMs = Math.floor(now / DAY_MS) * DAY_MS - (DAYS - 1 - day) * DAY_MS;
    // Today's events end a minute ago.
    const spanMs = Math.max(1, Math.min(DAY_MS, now - 60_000 - startMs));
    days.push(dayOf(startMs));
    for (let from = first; from < end; from += ROWS_AT_ONCE) {
      const part = { dayFirst: first, dayCount: end - first, startMs, spanMs, day: days.at(-1) };
      const count = Math.min(ROWS_AT_ONCE, end - from);
      await client.command({
        query: insertPart,
        query_params: { ...part, first: from, count, workspaceId, billingId, keyId },
      });
      showProgress('events', from + count, events);
    }
  }
  await sql`
    insert into usage_marks (workspace_id, billing_id, day) select ${workspaceId}, ${billingId}, unnest(${days}::date[])
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
  await rollUp({ sql, books }, now, new AbortController().signal);
  await Promise.all([sql.end(), books.close(), client.close()]);
}

const insertPart = `
  insert into usage_events (workspace_id, billing_id, day, event_id, kind, key_id, usage_name, cost_micros, used_micros, epoch, seq,
                            time, inserted_at)
  with number as n, n + 1 as done, modulo(done, ${COSTS}) as rest,
       {startMs:UInt64} + intDiv((n - {dayFirst:UInt64}) * {spanMs:UInt64}, {dayCount:UInt64}) as ms
  select {workspaceId:String}, {billingId:String}, toDate({day:String}),
         lower(concat('evt_0', substring(hex(toUInt64(ms)), 6), substring(hex(cityHash64(n)), 3))), 'verification',
         {keyId:String}, if(modulo(n, 2) = 0, 'tokens', 'requests'), 1 + modulo(n, ${COSTS}),
         intDiv(done, ${COSTS}) * ${SUM_OF_COSTS} + intDiv(rest * (rest + 1), 2), 1, done,
         fromUnixTimestamp64Milli(toInt64(ms)), fromUnixTimestamp64Milli(toInt64(ms))
  from numbers({first:UInt64}, {count:UInt64})`;
