import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import postgres from 'postgres';
import { record, writeRecords } from '../../apps/stack/process/leftovers.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { start, untilReady, type Started } from '../../apps/stack/process/program.ts';
import { createDatabase, preparePostgres } from '../../apps/stack/servers/postgres.ts';
import { giveRolePassword, migratePostgres } from '../../shared/stores/migrate.ts';
import { connectPostgres } from '../../shared/stores/postgres.ts';

export type OwnPostgres = Awaited<ReturnType<typeof makeOwnPostgres>>;

/** A Postgres cluster of a test's own, as new as can be, with our schema in it. */
export async function makeOwnPostgres(name: string) {
  const folder = join(process.env.TEST_FOLDER ?? '', name);
  mkdirSync(folder, { recursive: true });
  const [port = 0] = await freePorts(1);
  const server = await preparePostgres({ folder, port, throwAway: true });
  const log = join(folder, 'postgres.log');
  let running: Started;

  const own = {
    url: server.url('keytally'),
    async start() {
      running = await start(server.program, log);
      // Written down, so that the run stops it even if this file is cut off.
      writeRecords(folder, [record(server.program, running)]);
      await untilReady(server.program, running, log);
    },
    async stop() {
      process.kill(running.pid, 'SIGINT');
      await running.ended;
    },
    /** Takes over what another cluster has, as a dump and a restore do: rows and sequences, no transaction ids. */
    copyFrom: (url: string) => copyAll(url, own.url),
    /** Becomes a standby and is promoted, as after the loss of a primary. */
    async promote() {
      await own.stop();
      writeFileSync(join(folder, 'data', 'standby.signal'), '');
      await own.start();
      const sql = postgres(server.url('postgres'), { max: 1 });
      await sql`select pg_promote()`;
      await sql.end();
    },
  };
  await own.start();
  await createDatabase(server, 'keytally');
  const sql = connectPostgres(own.url, { max: 1 });
  await migratePostgres(sql);
  for (const role of ['API', 'CONSUMER'] as const) {
    const { password } = new URL(process.env[`TEST_${role}_POSTGRES_URL`]!);
    await giveRolePassword(sql, `keytally_${role.toLowerCase() as 'api' | 'consumer'}`, password);
  }
  await sql.end();
  return own;
}

async function copyAll(fromUrl: string, toUrl: string): Promise<void> {
  const [from, to] = [fromUrl, toUrl].map((url) => postgres(url, { max: 1 })) as [postgres.Sql, postgres.Sql];
  // Rows come in any order of their tables, and none of them is a change.
  await to`set session_replication_role = replica`;
  const tables = await from<{ name: string }[]>`
    select table_name as name from information_schema.tables
    where table_schema = 'public' and table_name <> 'schema_migrations'`;
  await to`truncate ${to(tables.map(({ name }) => name))}`;
  for (const { name } of tables) {
    const rows = await from`copy ${from(name)} to stdout`.readable();
    await pipeline(rows, await to`copy ${to(name)} from stdin`.writable());
  }
  const sequences = await from<{ name: string; last: string }[]>`
    select sequencename as name, last_value::text as last from pg_sequences where last_value is not null`;
  for (const { name, last } of sequences) await to`select setval(${name}::text::regclass, ${last}::text::bigint)`;
  await Promise.all([from.end(), to.end()]);
}
