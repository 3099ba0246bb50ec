// Postgres as others run it: its owner is no superuser, it is taken back to a point in time, and a standby takes over.
import { execFile, execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { succeeds } from '../../shared/runtime/succeeds.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { stopProcess } from '../../apps/stack/process/processes.ts';
import { start, untilReady, type Program, type Started } from '../../apps/stack/process/program.ts';
import { createDatabase, preparePostgres, withConnection } from '../../apps/stack/servers/postgres.ts';
import { errors } from '../../shared/contract/errors.ts';
import { atEnd } from '../helpers/at-end.ts';
import { eventually, makeWorld, once, makeCustomers, must, newWorkspace } from '../helpers/world.ts';
import type { World, Customers } from '../helpers/world.ts';

const folder = process.env.TEST_FOLDER!;
const archive = join(folder, 'archive');
const [port = 0, otherPort = 0] = await freePorts(2);
const address = (user: string, at = port) => `postgres://${user}:a-password@127.0.0.1:${at}/postgres`;
const superuser = address('keytally');
const asSuperuser = <Row>(text: string) => withConnection(superuser, (sql) => sql.unsafe<Row[]>(text));
const dataOf = ({ args }: Program) => args[args.indexOf('-D') + 1]!;
const settle = (program: Program, lines: string) =>
  appendFileSync(join(dataOf(program), 'postgresql.auto.conf'), `${lines}\n`);
const fetchesWal = `archive_mode = off\nrestore_command = 'cp ${archive}/%f %p'`;

let server: Program;
let running: Started;
let world: World;
let customers: Customers;
let path: string;

test.before(async () => {
  mkdirSync(archive, { recursive: true });
  server = await preparePostgres({ folder: join(folder, 'primary'), url: superuser, throwAway: false });
  execFileSync('chown', [`--reference=${dataOf(server)}`, archive]);
  settle(server, `archive_mode = on\narchive_command = 'cp %p ${archive}/%f'`);
  running = await run(server);
  await asSuperuser(`create role owner login createrole createdb password 'a-password'`);
  await createDatabase(address('owner'), 'keytally_template');
  process.env.TEST_POSTGRES_URL = address('owner');
  const passwords = ['API', 'CONSUMER', 'WEBHOOKS'].map((role) => [
    `${role}_DATABASE_PASSWORD`,
    new URL(process.env[`TEST_${role}_POSTGRES_URL`]!).password,
  ]);
  await command('migrate', {
    ...Object.fromEntries(passwords),
    DATABASE_URL: address('owner').replace(/postgres$/, 'keytally_template'),
    CLICKHOUSE_URL: `${process.env.TEST_CLICKHOUSE_URL}keytally_template`,
  });
  world = await makeWorld(['verify', 'consumer']);
  const id = await newWorkspace(world);
  path = `/api/v1/workspace/${id}/api-key`;
  customers = makeCustomers(world, id);
});
// Before the Postgres of the last test.

test('taken back to a point in time, Postgres is found older than Redis: what was disabled since stays so', async () => {
  const earlier = await copyServer('earlier', 'recovery.signal');
  const [key, other] = [await customers.newKey(), await customers.newKey()];
  await inForce();
  const [{ now } = { now: '' }] = await asSuperuser<{ now: string }>('select clock_timestamp()::text as now');
  await enable(key, false);
  await inForce();
  const [{ wal } = { wal: '' }] = await asSuperuser<{ wal: string }>('select pg_walfile_name(pg_switch_wal()) as wal');
  const archived = `select from pg_stat_archiver where last_archived_wal >= '${wal}'`;
  await eventually('its log is in the archive', async () => (await asSuperuser(archived)).length);
  await stopProcess(running, 'SIGINT', 60_000);
  settle(earlier, `${fetchesWal}\nrecovery_target_time = '${now}'\nrecovery_target_action = promote`);
  running = await run((server = earlier));

  await eventually(
    'the api refuses changes',
    async () => (await rename(other)).body.error?.code === errors.postgres_stale[0],
  );
  assert.is(await status(key), 'DISABLED');
  assert.match(await command('restored', world.env), key.id);
  await eventually('the api takes changes', async () => (await rename(other)).status === 200);
  assert.is(await status(key), 'DISABLED');
  await enable(key, true);
  assert.is(await status(key), 'VALID');
});

test('a synchronous standby that takes over has all that was answered, and no change is refused as older', async () => {
  const standby = await copyServer('standby', 'standby.signal');
  const upstream = `host=127.0.0.1 port=${port} user=keytally password=a-password application_name=standby`;
  settle(standby, `${fetchesWal}\nrecovery_target_time = ''\nprimary_conninfo = '${upstream}'`);
  const elsewhere = standby.args.map((one) => (one === `port=${port}` ? `port=${otherPort}` : one));
  const isReady = () => succeeds(withConnection(address('keytally', otherPort), (sql) => sql`select`));
  const following = await run({ ...standby, args: elsewhere, port: otherPort, isReady });
  await asSuperuser(`alter system set synchronous_standby_names = 'standby'`);
  await asSuperuser('select pg_reload_conf()');
  const inSync = `select from pg_stat_replication where sync_state = 'sync'`;
  await eventually('each commit waits for it', async () => (await asSuperuser(inSync)).length);
  const [metered, disabled] = [await customers.meteredKey('10'), await customers.newKey()];
  await customers.spend(metered, '1');
  await enable(disabled, false);
  await stopProcess(running, 'SIGKILL', 60_000);
  await stopProcess(following, 'SIGINT', 60_000);
  running = await run(standby);
  await asSuperuser('select pg_promote()');

  await eventually('the api takes changes', async () => {
    const answer = await rename(metered);
    assert.is.not(answer.body.error?.code, errors.postgres_stale[0]);
    return answer.status === 200;
  });
  await customers.spend(metered, '2');
  assert.equal([await status(disabled), (await customers.billing(metered.meter)).usedCredits], ['DISABLED', '3']);
  await world.booked();
  assert.match(await command('reconcile', world.env), /^1 exact, 0 differ, 0 undecided/m);
});

async function run(program: Program): Promise<Started> {
  const log = join(folder, 'postgres.log');
  const started = await start(program, log);
  atEnd(() => stopProcess(started, 'SIGKILL', 60_000));
  await untilReady(program, started, log);
  return started;
}

/** Copies the running server into a folder of its own, as pg_basebackup does. */
async function copyServer(name: string, signal: string): Promise<Program> {
  const from = dataOf(server);
  const to = join(folder, name);
  await withConnection(superuser, async (sql) => {
    await sql`select pg_backup_start(${name}, true)`;
    // Files come and go meanwhile.
    execFileSync('sh', ['-c', `cp -a '${from}' '${to}' 2>&1 || true; rm -rf '${to}/postmaster.pid' '${to}'/pg_wal/0*`]);
    const [stopped] = await sql<[{ labelfile: string }]>`select labelfile from pg_backup_stop(false)`;
    writeFileSync(join(to, 'backup_label'), stopped.labelfile);
  });
  writeFileSync(join(to, signal), '');
  execFileSync('chown', ['-R', `--reference=${from}`, to]);
  return { ...server, args: server.args.map((one) => (one === from ? to : one)) };
}

async function command(name: string, env: NodeJS.ProcessEnv): Promise<string> {
  const file = join(import.meta.dirname, `../../apps/api/commands/${name}.ts`);
  return (await promisify(execFile)(process.execPath, [file], { env: { ...process.env, ...env } })).stdout;
}

async function inForce(): Promise<void> {
  await eventually(
    'changes are in force',
    async () => (await world.sql`select from changes where applied_at is null`).length === 0,
  );
}

const rename = ({ id }: { id: string }) => world.call('patch', `${path}/${id}`, { name: 'renamed' });
const enable = ({ id }: { id: string }, enabled: boolean) =>
  must(200, world.call('patch', `${path}/${id}`, { enabled }));

async function status({ key }: { key: string }): Promise<string> {
  return (await must(200, customers.verify({ key }, { headers: once() }))).body.status;
}
