import type { ClickHouseClient } from '@clickhouse/client';
import { systemClock } from '../runtime/clock.ts';
import { copyRows, eventsOf, MEMORY, OWNERS, type CopyOptions } from './copy-usage-rows.ts';
import { usageDayColumns, usageDaysOf } from './usage-days.ts';
import { markDays } from './usage-marks.ts';

export type { CopyOptions };

/** Notes what is copied: a copy that is cut short goes on behind it. */
const NOTES = 'copied_usage';
// Longer than an insert may take. A slower one is given up and sent again, with a newer inserted_at.
const MARGIN_MS = 60_000;
const SHORT_PASS_MS = 5_000;
const PASSES = 10;
const LOOK_EVERY_MS = 100;
const INSERTED_WITHIN_MS = 60_000;
const DAYS_AT_ONCE = 10_000;

/**
 * Copies the events of a version before into the table by workspace, once. Consumers of before go on writing theirs until step 4;
 * from then on they are refused, and their events wait. Those of this version are refused until then, and theirs wait, too. A row
 * that is copied twice is the same row, so after a crash at any line the next run goes on at the last note.
 * 1. Copy month by month, and note each piece.
 * 2. Sum up the days of each month.
 * 3. Copy what was inserted meanwhile, until that takes no time.
 * 4. Drop the sums of before, so that nobody sums up days in the old way any more, and exchange the tables. After a crash from
 *    here on, usage_events_next is the table of before.
 * 5. Copy what was inserted before the exchange, when all inserts of then have ended.
 * 6. Mark the days of all that was inserted since the beginning: their sums may lack some of it. Drop what is not needed.
 */
export async function copyUsage(options: CopyOptions): Promise<void> {
  const { client, sql, onCluster } = options;
  await client.command({
    query:
      onCluster(`create table if not exists ${NOTES} (what String, billing_id String, day Date, at DateTime64(3, 'UTC'))
engine = MergeTree order by what`),
  });
  await client.command({
    query: onCluster(`create table if not exists ${OWNERS} (id String, workspace_id String, customer_id String)
engine = ReplacingMergeTree order by id`),
  });
  const beganMs = await beginning(client);

  if (await isOfBefore(client, 'usage_events')) {
    await copyMonths(options);
    const sinceMs = await copyLatest(options, beganMs);
    await note(client, 'since', sinceMs);
    await options.requireLock();
    await client.command({ query: onCluster('drop table if exists usage_daily') });
    await client.command({ query: onCluster('exchange tables usage_events and usage_events_next') });
  }
  if (await isOfBefore(client, 'usage_events_next')) {
    await insertsEnded(options);
    const since = (await noted(client, 'since'))?.atMs ?? beganMs;
    await copyRows(options, 'usage_events_next', insertedSince(since));
  }
  await markSince(options, beganMs);
  await sql`
    update usage_marks set workspace_id = b.workspace_id from billing_records b
    where usage_marks.workspace_id = '' and b.id = usage_marks.billing_id`;
  await sayOwnerless(options);
  await options.requireLock();
  for (const table of ['usage_events_next', 'usage_daily', OWNERS, NOTES])
    await client.command({ query: onCluster(`drop table if exists ${table}`) });
}

async function copyMonths(options: CopyOptions): Promise<void> {
  const { client, say, rowsAtOnce } = options;
  const total = await count(client, 'usage_events');
  let copied = 0;
  for (const month of await monthsOf(client, 'usage_events')) {
    for (let after = await noted(client, `rows ${month}`); !(await noted(client, `copied ${month}`));) {
      const last = await endOfPiece(options, month, after);
      await copyRows(options, 'usage_events', pieceOf(month, after, last));
      await note(client, last ? `rows ${month}` : `copied ${month}`, systemClock.now(), last);
      after = last && { ...last, atMs: 0 };
      copied += rowsAtOnce;
      say(() => `copied ${Math.min(copied, total)} of ${total} events by workspace`);
    }
    if (await noted(client, `summed ${month}`)) continue;
    say(() => `summing up the days of ${month}`);
    await client.command({
      query: `insert into usage_days (${usageDayColumns})
              ${usageDaysOf('usage_events_next final where _partition_id = {month:String}')}`,
      query_params: { month },
      clickhouse_settings: {
        ...MEMORY,
        optimize_aggregation_in_order: 1,
        do_not_merge_across_partitions_select_final: 1,
      },
    });
    await note(client, `summed ${month}`, systemClock.now());
  }
}

type Place = { billingId: string; day: string };
type Note = Place & { atMs: number };

/** The last record and day of the next piece; undefined of the last one. */
async function endOfPiece(
  { client, rowsAtOnce }: CopyOptions,
  month: string,
  after?: Place,
): Promise<Place | undefined> {
  const { where, params } = pieceOf(month, after);
  const [place] = await read<Place>(
    client,
    `select billing_id as "billingId", toString(day) as day from usage_events where ${where}
     order by billing_id, usage_events.day limit 1 offset ${rowsAtOnce}`,
    params,
  );
  return place;
}

// As nested conditions: of a comparison of tuples ClickHouse uses the first column alone to find its place.
function pieceOf(month: string, after?: Place, last?: Place) {
  const parts = ['_partition_id = {month:String}'];
  if (after)
    parts.push('(billing_id > {after:String} or billing_id = {after:String} and usage_events.day > {afterDay:Date})');
  if (last)
    parts.push('(billing_id < {last:String} or billing_id = {last:String} and usage_events.day <= {lastDay:Date})');
  const params = { month, after: after?.billingId, afterDay: after?.day, last: last?.billingId, lastDay: last?.day };
  return { where: parts.join(' and '), params };
}

function insertedSince(sinceMs: number) {
  return {
    where: 'inserted_at >= fromUnixTimestamp64Milli({sinceMs:Int64})',
    params: { sinceMs: Math.max(0, sinceMs - MARGIN_MS) },
  };
}

/** Copies what was inserted since then, again and again; gives since when there may be more. */
async function copyLatest(options: CopyOptions, beganMs: number): Promise<number> {
  let sinceMs = beganMs;
  for (let pass = 0; pass < PASSES; pass++) {
    const startedMs = await clock(options.client);
    await copyRows(options, 'usage_events', insertedSince(sinceMs));
    sinceMs = startedMs;
    if ((await clock(options.client)) - startedMs < SHORT_PASS_MS) break;
  }
  return sinceMs;
}

/** Waits until no insert runs that began before: it may go into the table of before. */
async function insertsEnded({ client, cluster }: CopyOptions): Promise<void> {
  const processes = cluster === '' ? 'system.processes' : `clusterAllReplicas('${cluster}', system.processes)`;
  const startedMs = systemClock.monotonic();
  for (;;) {
    const waitedMs = systemClock.monotonic() - startedMs;
    const running = await read(
      client,
      `select query_id from ${processes}
       where query_kind = 'Insert' and current_database = currentDatabase() and elapsed >= {seconds:Float64}`,
      { seconds: waitedMs / 1000 },
    );
    if (running.length === 0) return;
    if (waitedMs > INSERTED_WITHIN_MS) throw new Error('an insert into the books does not end; migrate again');
    await systemClock.sleep(LOOK_EVERY_MS);
  }
}

async function markSince({ client, sql }: CopyOptions, beganMs: number): Promise<void> {
  const { where, params } = insertedSince(beganMs);
  type Day = { workspaceId: string; billingId: string; of: string };
  for (let after = { workspaceId: '', billingId: '', of: '1970-01-01' }, more = true; more;) {
    const days = await read<Day>(
      client,
      `select distinct workspace_id as "workspaceId", billing_id as "billingId", toString(day) as of from usage_events
       where ${where} and (workspace_id, billing_id, day) > ({workspaceId:String}, {billingId:String}, {of:Date})
       order by "workspaceId", "billingId", of limit ${DAYS_AT_ONCE}`,
      { ...params, ...after },
    );
    await markDays(
      sql,
      days.map(({ of, ...one }) => ({ ...one, day: of })),
    );
    more = days.length === DAYS_AT_ONCE;
    after = days.at(-1) ?? after;
  }
}

async function sayOwnerless({ client, warn }: CopyOptions): Promise<void> {
  const events = await count(client, `usage_events final where workspace_id = ''`);
  if (events > 0) warn(`${events} events have no workspace in the books: their key and record are gone from Postgres`);
}

/** When the first run began, by the clock of ClickHouse. */
async function beginning(client: ClickHouseClient): Promise<number> {
  const before = await noted(client, 'began');
  if (before) return before.atMs;
  const atMs = await clock(client);
  await note(client, 'began', atMs);
  return atMs;
}

async function note(client: ClickHouseClient, what: string, atMs: number, place?: Place): Promise<void> {
  const row = { what, billing_id: place?.billingId ?? '', day: place?.day ?? '1970-01-01', at: atMs };
  await client.insert({ table: NOTES, values: [row], format: 'JSONEachRow' });
}

/** The last note of it. */
async function noted(client: ClickHouseClient, what: string): Promise<Note | undefined> {
  const [found] = await read<Place & { atMs: string }>(
    client,
    `select billing_id as "billingId", toString(day) as day, toUnixTimestamp64Milli(at) as "atMs" from ${NOTES}
     where what = {what:String} order by billing_id desc, ${NOTES}.day desc, at desc limit 1`,
    { what },
  );
  return found && { ...found, atMs: Number(found.atMs) };
}

async function isOfBefore(client: ClickHouseClient, table: string): Promise<boolean> {
  const columns = await eventsOf(client, table);
  return columns.length > 0 && !columns.includes('workspace_id');
}

async function monthsOf(client: ClickHouseClient, table: string): Promise<string[]> {
  const months = await read<{ month: string }>(
    client,
    `select distinct partition_id as month from system.parts
     where database = currentDatabase() and table = {table:String} and active order by month`,
    { table },
  );
  return months.map(({ month }) => month);
}

async function count(client: ClickHouseClient, rows: string): Promise<number> {
  const [row] = await read<{ events: string }>(client, `select count() as events from ${rows}`);
  return Number(row!.events);
}

async function clock(client: ClickHouseClient): Promise<number> {
  const [row] = await read<{ now: string }>(client, 'select toUnixTimestamp64Milli(now64(3)) as now');
  return Number(row!.now);
}

async function read<Row>(
  client: ClickHouseClient,
  query: string,
  query_params: Record<string, unknown> = {},
): Promise<Row[]> {
  return (await client.query({ query, query_params, format: 'JSONEachRow' })).json<Row>();
}
