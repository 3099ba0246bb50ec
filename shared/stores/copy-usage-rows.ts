import type { ClickHouseClient } from '@clickhouse/client';
import { chunks } from '../values/chunks.ts';
import { eachOf, type Sql } from './postgres.ts';

export type CopyOptions = {
  client: ClickHouseClient;
  sql: Sql;
  cluster: string;
  /** The statement for a cluster. */
  onCluster(statement: string): string;
  /** Shows how far it is. */
  say(text: () => string): void;
  /** Tells what an operator has to know. */
  warn(text: string): void;
  /** How many rows are copied between two notes. */
  rowsAtOnce: number;
  /** Throws if another program may migrate meanwhile. */
  requireLock(): Promise<void>;
};

/** Which rows of a table: a condition with its parameters. */
type Rows = { where: string; params: Record<string, unknown> };

/** The workspaces of keys and records, and the customers of keys, as far as they were needed. */
export const OWNERS = 'copied_owners';
const IDS_AT_ONCE = 10_000;
/** As much as a job may take. A block of rows is sorted in memory before it is written. */
export const MEMORY = {
  max_memory_usage: '1000000000',
  max_bytes_before_external_group_by: '300000000',
  max_threads: 2,
  min_insert_block_size_rows: '200000',
  min_insert_block_size_bytes: '64000000',
} as const;

/** Copies rows of a table of before, with the workspaces and customers that Postgres has. The two tables may have changed names. */
export async function copyRows(options: CopyOptions, from: string, rows: Rows): Promise<void> {
  const { client } = options;
  const to = from === 'usage_events' ? 'usage_events_next' : 'usage_events';
  await learnOwners(options, from, rows);
  const columns = (await eventsOf(client, from)).join(', ');
  const owners = (id: string) => `
    (select id, any(workspace_id) as workspace, any(customer_id) as customer from ${OWNERS}
     where id in (select ${id} from ${from} where ${rows.where}) group by id)`;
  await client.command({
    query: `
      insert into ${to} (${columns}, workspace_id, customer_id)
      select ${columns}, if(of_key.workspace != '', of_key.workspace, of_record.workspace), of_key.customer
      from (select ${columns} from ${from} where ${rows.where}) as events
      left any join ${owners('key_id')} as of_key on events.key_id = of_key.id
      left any join ${owners('billing_id')} as of_record on events.billing_id = of_record.id`,
    query_params: rows.params,
    clickhouse_settings: { ...MEMORY, max_partitions_per_insert_block: '0' },
  });
}

/** The columns of a table; none where there is no such table. */
export async function eventsOf(client: ClickHouseClient, table: string): Promise<string[]> {
  const answer = await client.query({
    query: `select name from system.columns where database = currentDatabase() and table = {table:String} order by position`,
    query_params: { table },
    format: 'JSONCompactEachRow',
  });
  return (await answer.json<[name: string]>()).map(([name]) => name);
}

async function learnOwners({ client, sql }: CopyOptions, from: string, { where, params }: Rows): Promise<void> {
  const ids = `select distinct arrayJoin([key_id, billing_id]) as id from ${from} where ${where}`;
  const answer = await client.query({
    query: `select id from (${ids}) where id != '' and id not in (select id from ${OWNERS} where id in (${ids}))`,
    query_params: params,
    clickhouse_settings: MEMORY,
    format: 'JSONCompactEachRow',
  });
  for await (const rows of answer.stream<[id: string]>()) {
    for (const some of chunks(rows, IDS_AT_ONCE)) {
      const asked = some.map((row) => row.json()[0]);
      const owners = await sql<{ id: string; workspaceId: string; customerId: string }[]>`
        select id, workspace_id, coalesce(customer_id, '') as customer_id from api_keys where id = any(${eachOf(sql, asked)})
        union all
        select id, workspace_id, '' from billing_records where id = any(${eachOf(sql, asked)})`;
      if (owners.length === 0) continue;
      const values = owners.map(({ id, workspaceId, customerId }) => [id, workspaceId, customerId]);
      await client.insert({ table: OWNERS, values, format: 'JSONCompactEachRow' });
    }
  }
}
