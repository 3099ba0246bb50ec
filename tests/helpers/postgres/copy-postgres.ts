import type { Sql } from 'postgres';
import postgres from '../../../shared/stores/postgres-driver.ts';

const ROWS_AT_ONCE = 500;

/**
 * Copies a database into one of another cluster, as a dump and a restore do: rows and sequences, no transaction ids. Not by
 * COPY, which the driver (postgres 3.4) now and then never begins on a connection that has just ended another one.
 */
export async function copyPostgres(fromUrl: string, toUrl: string): Promise<void> {
  const [from, to] = [fromUrl, toUrl].map((url) => postgres(url, { max: 1, onnotice: () => {} })) as [Sql, Sql];
  try {
    // Rows come in any order of their tables, and none of them is a change.
    await to`set session_replication_role = replica`;
    const tables = await from<{ name: string }[]>`
      select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations'`;
    await to`truncate ${to(tables.map(({ name }) => name))}`;
    for (const { name } of tables) {
      const pages = from<{ row: string }[]>`select row_to_json(t)::text as row from ${from(name)} t`.cursor(
        ROWS_AT_ONCE,
      );
      for await (const rows of pages) {
        await to`
          insert into ${to(name)} overriding system value
          select (json_populate_record(null::${to(name)}, row::json)).*
          from unnest(${rows.map(({ row }) => row)}::text[]) as row`;
      }
    }
    const sequences = await from<{ name: string; last: string }[]>`
      select sequencename as name, last_value::text as last from pg_sequences where last_value is not null`;
    for (const { name, last } of sequences) await to`select setval(${name}::text::regclass, ${last}::text::bigint)`;
  } finally {
    await Promise.all([from.end(), to.end()]);
  }
}
