import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import postgres from '../../../shared/stores/postgres-driver.ts';
import { record, writeRecords } from '../../../apps/stack/process/leftovers.ts';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { start, untilReady, type Started } from '../../../apps/stack/process/program.ts';
import { createDatabase, preparePostgres } from '../../../apps/stack/servers/postgres.ts';
import { giveRolePassword, migratePostgres } from '../../../shared/stores/migrate.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { copyPostgres } from './copy-postgres.ts';

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
    copyFrom: (url: string) => copyPostgres(url, own.url),
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
