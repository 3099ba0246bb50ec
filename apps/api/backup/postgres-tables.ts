import type { Query, Transaction } from '../../../shared/stores/postgres.ts';
import type { Header, Part } from './archive.ts';

// Rows that one step of a cursor fetches: the driver keeps all of them in memory. A long row, as that of an answer which an
// Idempotency-Key has kept, comes alone.
const ROWS_AT_ONCE = 1_000;
const LONG_ROW_BYTES = 4_000;
const PART_CHARACTERS = 2_000_000;

/**
 * The columns of all tables of settings. Left out are sessions, since a restored one may have been ended meanwhile, and columns of transaction ids: those of another cluster mean nothing, so a
 * restored row gets that of the restore, which is its column's default.
 */
export async function postgresTables(sql: Query): Promise<Header['tables']> {
  const rows = await sql<{ name: string; columns: string[] }[]>`
    select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname not in ('schema_migrations', 'sessions')
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and a.atttypid <> 'xid8'::regtype
    group by c.relname order by c.relname`;
  return Object.fromEntries(rows.map(({ name, columns }) => [`postgres/${name}`, columns]));
}

/** The next value of each sequence. A sequence belongs to no snapshot: read it after the snapshot was taken. */
export async function readSequences(sql: Query): Promise<Header['sequences']> {
  const rows = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'S' order by 1`;
  const values: [string, string][] = [];
  for (const { name } of rows) {
    const [row] = await sql<[{ next: string }]>`select (last_value + is_called::int)::text as next from ${sql(name)}`;
    values.push([name, row.next]);
  }
  return Object.fromEntries(values);
}

/**
 * The rows of a table as the transaction sees them, each a line of JSON: the short ones, then the long ones. A part ends with the
 * row that fills it. COPY would be faster, but the driver (postgres 3.4) never reports why a COPY that writes has failed.
 */
export async function* readPostgresTable(tx: Query, table: string, columns: string[]): AsyncGenerator<Part> {
  // A line break in a `json` value can only stand between its parts: inside a string it is written as \n. Without `offset 0`,
  // Postgres would make each line twice.
  const lines = tx`
    (select replace(row_to_json(picked)::text, e'\n', ' ') as line
     from (select ${tx(columns)} from ${tx(nameOf(table))}) as picked offset 0) as lines`;
  const short = tx<Line[]>`select line from ${lines} where octet_length(line) <= ${LONG_ROW_BYTES}`;
  const long = tx<Line[]>`select line from ${lines} where octet_length(line) > ${LONG_ROW_BYTES}`;
  let held: string[] = [];
  let characters = 0;
  for (const rows of [short.cursor(ROWS_AT_ONCE), long.cursor(1)]) {
    for await (const some of rows) {
      for (const { line } of some) {
        held.push(line);
        characters += line.length;
        if (characters < PART_CHARACTERS) continue;
        yield partOf(table, held);
        [held, characters] = [[], 0];
      }
    }
  }
  if (held.length > 0) yield partOf(table, held);
}

/** Lets rows in as they are: no trigger runs, no reference is looked up. Superusers may do that, and whom one has let. */
export async function letRowsIn(tx: Transaction): Promise<void> {
  await tx`set local session_replication_role = replica`.catch((cause: unknown) => {
    const message =
      'the owner of Postgres may not load rows as they are; as a superuser, `grant set on parameter session_replication_role` to it';
    throw new Error(message, { cause });
  });
}

/** Empties all tables of settings. */
export async function emptyTables(tx: Transaction, tables: Header['tables']): Promise<void> {
  for (const table of Object.keys(tables).filter(isOfPostgres)) await tx`truncate ${tx(nameOf(table))} cascade`;
}

/** Writes a part of a table that `emptyTables` has emptied. */
export async function writePostgresPart(tx: Transaction, { table, rows }: Part, columns: string[]): Promise<void> {
  const list = `[${rows.toString('utf8', 0, rows.length - 1).replaceAll('\n', ',')}]`;
  await tx`
    insert into ${tx(nameOf(table))} (${tx(columns)}) overriding system value
    select ${tx(columns)} from json_populate_recordset(null::${tx(nameOf(table))}, ${list}::text::json)`;
}

/** Lets each sequence go on where it was. */
export async function setSequences(tx: Transaction, sequences: Header['sequences']): Promise<void> {
  for (const [name, next] of Object.entries(sequences))
    await tx`select setval(${name}::text::regclass, ${next}::text::bigint, false)`;
}

/** Whether a table of a backup is one of Postgres; the others are the books'. */
export function isOfPostgres(table: string): boolean {
  return table.startsWith('postgres/');
}

type Line = { line: string };

function partOf(table: string, lines: string[]): Part {
  return { table, rows: Buffer.from(`${lines.join('\n')}\n`) };
}

function nameOf(table: string): string {
  return table.slice('postgres/'.length);
}
