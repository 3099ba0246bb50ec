import { pipeline } from 'node:stream/promises';
import postgres from 'postgres';

/** Copies a database into one of another cluster, as a dump and a restore do: rows and sequences, no transaction ids. */
export async function copyPostgres(fromUrl: string, toUrl: string): Promise<void> {
  const [from, to] = [fromUrl, toUrl].map((url) => postgres(url, { max: 1, onnotice: () => {} })) as [
    postgres.Sql,
    postgres.Sql,
  ];
  try {
    // Rows come in any order of their tables, and none of them is a change.
    await to`set session_replication_role = replica`;
    const tables = await from<{ name: string }[]>`
      select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations'`;
    await to`truncate ${to(tables.map(({ name }) => name))}`;
    for (const { name } of tables) {
      const rows = await from`copy ${from(name)} to stdout`.readable();
      await pipeline(rows, await to`copy ${to(name)} from stdin`.writable());
    }
    const sequences = await from<{ name: string; last: string }[]>`
      select sequencename as name, last_value::text as last from pg_sequences where last_value is not null`;
    for (const { name, last } of sequences) await to`select setval(${name}::text::regclass, ${last}::text::bigint)`;
  } finally {
    await Promise.all([from.end(), to.end()]);
  }
}
