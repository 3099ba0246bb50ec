import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../../tests/helpers/eventually.ts';
import { connectPostgres, isPostgresConnectionError } from '../../../shared/stores/postgres.ts';
import { freePorts } from '../process/ports.ts';
import { makeSupervisor } from '../process/supervisor.ts';
import { createDatabase, preparePostgres } from './postgres.ts';

const folder = process.env.TEST_FOLDER ?? '';
const supervisor = makeSupervisor({ folder, logFile: (name) => join(folder, `${name}.log`), say: () => {} });
test.after(() => supervisor.stop([]));

test('stopped while it creates a database, it keeps nobody waiting', async () => {
  const [port = 0] = await freePorts(1);
  const server = await preparePostgres({ folder: join(folder, 'postgres'), port, throwAway: true });
  await supervisor.add(server.program);
  // Postgres waits five seconds for sessions in its template to end before it copies it.
  const holder = connectPostgres(server.url('template1'), { max: 1 });
  const admin = connectPostgres(server.url('postgres'), { max: 1 });
  try {
    await holder`select 1`;
    const outcome = createDatabase(server, 'keytally').catch((error: unknown) => error);
    await eventually('it is being created', async () => {
      const found = await admin`select from pg_stat_activity where query like 'create database%' and state = 'active'`;
      return found.length > 0;
    });
    await supervisor.remove('postgres');
    assert.ok(isPostgresConnectionError(await outcome));
  } finally {
    await Promise.all([holder.end({ timeout: 0 }), admin.end({ timeout: 0 })]);
  }
});
