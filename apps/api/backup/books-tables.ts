import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import { countRows, type Part } from './archive.ts';

export type Client = Books['client'];

/** A table of the books: the columns that are stored, and those by which its rows are ordered, with their types. */
export type BooksTable = { table: string; columns: string[]; key: { name: string; type: string }[] };

// A page is in memory whole, and an event takes up to 3 KB.
const ROWS_AT_ONCE = 20_000;

/** The tables of the books but those of sums, which are computed again from the events. */
export async function booksTables(client: Client): Promise<BooksTable[]> {
  const tables = await read<{ name: string; key: string }>(
    client,
    `select name, sorting_key as key from system.tables
     where database = currentDatabase() and engine like '%MergeTree'
       and name not in ('schema_migrations', 'usage_days', 'booked_days') order by name`,
  );
  const columns = await read<{ table: string; name: string; type: string }>(
    client,
    // Addresses of end clients end with their row, within a day: a file would keep them.
    `select table, name, type from system.columns
     where database = currentDatabase() and default_kind not in ('MATERIALIZED', 'ALIAS', 'EPHEMERAL')
       and name != 'client_address'
     order by table, position`,
  );
  return tables.map(({ name: table, key }) => {
    const own = columns.filter((column) => column.table === table);
    const keyColumns = key.split(', ').map((part) => own.find(({ name }) => name === part));
    if (!keyColumns.every((one) => one !== undefined))
      throw new Error(`${table} is ordered by more than columns: ${key}`);
    return { table: `books/${table}`, columns: own.map(({ name }) => name), key: keyColumns };
  });
}

/**
 * The rows of a table, in pages in the order of its key. Rows of one key stay together: merges may not have made one of them
 * yet. Of the events, only those from before a moment (ms) that the books have reached: no event is added to them any more.
 */
export async function* readBooksTable(client: Client, table: BooksTable, beforeMs: number): AsyncGenerator<Part> {
  const name = nameOf(table.table);
  const partitions = await read<{ id: string }>(
    client,
    `select distinct partition_id as id from system.parts
     where database = currentDatabase() and table = {name:String} and active order by id`,
    { name },
  );
  const isOld = table.table === 'books/usage_events' ? 'and time < fromUnixTimestamp64Milli({beforeMs:Int64})' : '';
  const order = table.key.map((column) => column.name).join(', ');
  for (const { id } of partitions) {
    for (let after: string[] | undefined, more = true; more;) {
      const { stream } = await client.exec({
        query: `select ${table.columns.join(', ')} from ${name}
         where _partition_id = {id:String} ${isOld} ${after ? `and (${isAfter(table.key)})` : ''}
         order by ${order} limit ${ROWS_AT_ONCE} with ties format TabSeparated`,
        query_params: { id, beforeMs, ...Object.fromEntries((after ?? []).map((value, i) => [`k${i}`, value])) },
      });
      const rows = await buffer(stream);
      if (rows.length > 0) yield { table: table.table, rows };
      more = countRows(rows) >= ROWS_AT_ONCE;
      if (more) after = keyOfLast(rows, table);
    }
  }
}

/** Writes a part of a table. */
export async function writeBooksPart(client: Client, { table, rows }: Part, columns: string[]): Promise<void> {
  await client.insert({
    table: nameOf(table),
    columns: columns as [string, ...string[]],
    values: Readable.from([rows], { objectMode: false }),
    format: 'TabSeparated',
    clickhouse_settings: { async_insert: 0 },
  });
}

// While a backup is loaded this table names it: what the books hold is of it, and may be thrown away.
const LOADING = 'loading_backup';

/** The name of the backup that is being loaded into the books. */
export async function backupInBooks(client: Client): Promise<string | undefined> {
  const rows = await read<{ backup: string }>(client, `select backup from ${LOADING}`).catch((error: unknown) => {
    if (/^UNKNOWN_(DATABASE|TABLE)$/.test(String((error as { type?: unknown }).type))) return [];
    throw error;
  });
  return rows[0]?.backup;
}

/** Refuses books that hold anything but a part of a backup, empties them, and notes which backup is being loaded. */
export async function beginBooks(client: Client, backup: string): Promise<void> {
  const [loading] = await read(
    client,
    `select name from system.tables where database = currentDatabase() and name = '${LOADING}'`,
  );
  const tables = await booksTables(client);
  if (!loading) {
    for (const { table } of tables) {
      const [row] = await read(client, `select 1 as one from ${nameOf(table)} limit 1`);
      if (row) throw new Error('the books hold usage already: restore into empty servers');
    }
  }
  // The sums of days, too: they are made again of what is loaded.
  for (const name of [...tables.map(({ table }) => nameOf(table)), 'usage_days', 'booked_days'])
    await client.command({ query: `truncate table ${name}` });
  await client.command({ query: `create or replace table ${LOADING} (backup String) engine = TinyLog` });
  await client.insert({ table: LOADING, values: [{ backup }], format: 'JSONEachRow' });
}

/** The books are whole. */
export async function endBooks(client: Client): Promise<void> {
  await client.command({ query: `drop table if exists ${LOADING}` });
}

// As nested conditions: of a comparison of tuples ClickHouse uses the first column alone to find its place.
function isAfter(key: BooksTable['key'], from = 0): string {
  const { name, type } = key[from]!;
  const value = `cast({k${from}:String} as ${type})`;
  return from === key.length - 1
    ? `${name} > ${value}`
    : `${name} > ${value} or (${name} = ${value} and (${isAfter(key, from + 1)}))`;
}

function keyOfLast(rows: Buffer, { columns, key }: BooksTable): string[] {
  const last = rows.toString('utf8', rows.lastIndexOf(10, rows.length - 2) + 1, rows.length - 1).split('\t');
  return key.map(({ name }) =>
    last[columns.indexOf(name)]!.replace(/\\(.)/gs, (_, letter: string) => escaped[letter] ?? letter),
  );
}

const escaped: Record<string, string> = { t: '\t', n: '\n', r: '\r', b: '\b', f: '\f', 0: '\0' };

async function read<Row>(client: Client, query: string, params: Record<string, unknown> = {}): Promise<Row[]> {
  return (await client.query({ query, query_params: params, format: 'JSONEachRow' })).json<Row>();
}

function nameOf(table: string): string {
  return table.slice('books/'.length);
}
