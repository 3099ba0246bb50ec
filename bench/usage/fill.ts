import type { ClickHouseClient } from '@clickhouse/client';
import { usageDayColumns, usageDaysOf } from '../../shared/stores/usage-days.ts';
import { dateOf, DAY_MS } from '../../shared/values/periods.ts';
import type { World } from '../../tests/helpers/world.ts';

/** Usage of one workspace: its events are spread evenly over days, the last of which is today, and over its records. */
export type Plan = { teamId: string; workspaceId: string; events: number; records: number; days: string[] };

/** Plans usage that ends today. */
export function planUsage(plan: Omit<Plan, 'days'>, days: number, nowMs: number): Plan {
  const today = Math.floor(nowMs / DAY_MS);
  return { ...plan, days: Array.from({ length: days }, (_, i) => dateOf(today - days + 1 + i)) };
}

/** The id of a record, by its number from 0. */
export function recordId(number: number): string {
  return `bill_${String(number).padStart(26, '0')}`;
}

/** Makes the billing records, whose credits nobody uses here. */
export async function makeRecords({ sql, team }: World, { workspaceId, records }: Plan): Promise<void> {
  await sql`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
    select 'bill_' || lpad(n::text, 26, '0'), ${team.id}, ${workspaceId}, 'customer-' || n, n % 64, 0, false
    from generate_series(0, ${records - 1}::int) as n`;
}

/** Inserts refusals of every minute: by three statuses, of four keys each. */
export async function insertRefusals(client: ClickHouseClient, { teamId, workspaceId, days }: Plan): Promise<void> {
  await client.command({
    query: `
      insert into refusals (team_id, workspace_id, minute, would_refuse, status, reason, limited_by, key_id, customer_id, route, boot, calls)
      select {teamId:String}, {workspaceId:String}, toDateTime({first:Date}, 'UTC') + intDiv(number, 12) * 60, false,
        ['RATE_LIMITED', 'USAGE_LIMITED', 'DISABLED'][number % 3 + 1], '', '',
        concat('key_', leftPad(toString(number % 12), 26, '0')), '', 'POST /v1/models', 'boot', number % 100 + 1
      from numbers({minutes:UInt64} * 12)`,
    query_params: { teamId, workspaceId, first: days[0], minutes: days.length * MINUTES_OF_DAY },
    clickhouse_settings: { ...settings, max_partitions_per_insert_block: '0' },
  });
}

const MINUTES_OF_DAY = 1_440;

// One day is one part of the table, which takes some 100 MB while it is made. Ten days are still in one partition or two.
const settings = { max_threads: 2, max_insert_threads: '1', min_insert_block_size_rows: '1000000' };

/** Inserts the events day by day, and sums up each day that is over as the consumer's job does. */
export async function insertUsage(client: ClickHouseClient, plan: Plan, told: (done: number) => void): Promise<void> {
  const { workspaceId, events, records, days } = plan;
  for (const [i, day] of days.entries()) {
    const first = Math.floor((i * events) / days.length);
    const count = Math.floor(((i + 1) * events) / days.length) - first;
    await client.command({
      query: insertDay,
      query_params: { workspaceId, day, first, count, records },
      clickhouse_settings: settings,
    });
    const ofDay = 'usage_events final where workspace_id = {workspaceId:String} and day = {day:Date}';
    if (i < days.length - 1)
      await client.command({
        query: `insert into usage_days (${usageDayColumns}) ${usageDaysOf(ofDay)}`,
        query_params: { workspaceId, day },
        clickhouse_settings: settings,
      });
    told(first + count);
  }
}

// Every tenth record has a second usage name, and each has two keys. One event in a hundred gives something back.
const insertDay = `
  insert into usage_events (workspace_id, billing_id, day, time, event_id, kind, key_id, customer_id, usage_name, route, cost_micros)
  select {workspaceId:String}, concat('bill_', leftPad(toString(record), 26, '0')), {day:Date},
    toDateTime64({day:Date}, 3, 'UTC') + toIntervalMillisecond(cityHash64(number) % 86400000),
    concat('evt_', leftPad(toString(number), 26, '0')),
    if(number % 100 = 0, 'correction', 'verification'),
    concat('key_', leftPad(toString(record * 2 + number % 2), 26, '0')),
    concat('customer-', toString(record % 1000)),
    if(record % 10 = 0 and number % 2 = 0, 'tokens', 'requests'),
    concat('POST /v1/models/model-', toString(cityHash64(number, 'route') % 20), '/completions'),
    if(number % 100 = 0, -1, 1) * toInt64(cityHash64(number, 'cost') % 1000000)
  from (select number, cityHash64(number, 'record') % {records:UInt32} as record
        from numbers({first:UInt64}, {count:UInt64}))`;
