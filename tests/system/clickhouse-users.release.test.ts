import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { rollUp } from '../../apps/consumer/jobs/rollup.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { record, writeRecords } from '../../apps/stack/process/leftovers.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { stopProcess } from '../../apps/stack/process/processes.ts';
import { start, untilReady, type Started } from '../../apps/stack/process/program.ts';
import { clickhouseProgram } from '../../apps/stack/servers/clickhouse-program.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { blocksOf, readPages } from '../docs/helpers/pages.ts';
import { metric } from '../helpers/metric.ts';
import { eventually, makeCustomers, makeWorld } from '../helpers/world.ts';

// Each program on a ClickHouse where its user of deploy/clickhouse/users.xml has the rights that stand there, and no others; and the
// user that docs/deploy.md makes for Grafana. The engine of one machine knows one user, so it is started again for each of them.
type User = 'keytally' | 'keytally_api' | 'keytally_consumer' | 'grafana_books';
const folder = join(process.env.TEST_FOLDER ?? '', 'users');
const usersOfPrograms = readFileSync(join(checkout, 'deploy/clickhouse/users.xml'), 'utf8');
const [port = 0] = await freePorts(1);
const password = randomUUID();
const passwords = { keytally: password, keytally_api: password, keytally_consumer: password };
const CLICKHOUSE_URL = `http://keytally:${password}@127.0.0.1:${port}/keytally`;
const books = connectClickHouse(CLICKHOUSE_URL);
let server: Started | undefined;

await serveAs('keytally');
const world = await makeWorld(['verify'], { CLICKHOUSE_URL });
const { body } = await world.call('post', '/api/v1/workspace', { name: 'users' });
const workspaceId = body.workspace.id;
const customers = makeCustomers(world, workspaceId);
const { key, meter } = await customers.meteredKey('100');
const billing = { key, id: (await customers.billing(meter)).id };
test.after(async () => {
  await books.close();
  if (server) await stopProcess(server, 'SIGKILL', 1_000);
});

test('the consumer adds events and sums of days, and can change, remove or define nothing', async () => {
  await serveAs('keytally_consumer');
  const consumer = await world.start('consumer');
  const answer = await customers.verify({ key: billing.key, billing: { usage: '3' } }, { url: world.verify!.url });
  assert.is(answer.body.status, 'VALID');
  const written = async () => (await metric(consumer.url, 'keytally_consumed_events_total')) > 0;
  await eventually('the event is in the books', written);
  await rollUp({ sql: world.sql, books }, Date.now() + 2 * 86_400_000, new AbortController().signal);
  assert.is(await count('usage_days'), 1);
  assert.ok((await count('booked_days')) > 0);
  await consumer.stop();
  await denied([...destroying, ...reaching]);
});

test('the api reads usage and balances, and can write nothing', async () => {
  await serveAs('keytally_api');
  const usage = await world.call('get', `/api/v1/usage/${billing.id}`);
  assert.is(usage.body.data[0]?.totalBillingUsage, '3', usage.text);
  for (const command of ['reconcile', 'rebuild']) {
    const env = { ...world.env, PATH: process.env.PATH };
    await promisify(execFile)(process.execPath, [join(checkout, `apps/api/commands/${command}.ts`)], { env });
  }
  const used = async () => (await world.call('get', `/api/v1/usage/${billing.id}`)).status === 200;
  await eventually('every shard is open again', used);
  await denied([insert, ...destroying, ...reaching]);
});

test('Grafana reads sums of days by the query of its guide, and nothing else, and can write nothing', async () => {
  const blocks = blocksOf(readPages().find(({ path }) => path === 'docs/deploy.md')!);
  const block = (wanted: string) => blocks.find(({ language }) => language === wanted)!.text;
  await serveAs('grafana_books', block('xml'));
  const query = block('sql').replace('ws_…', workspaceId).replace('$__dateFilter(day)', 'day >= today() - 1');
  const rows = await (await books.client.query({ query, format: 'JSONEachRow' })).json<object>();
  const found = rows.map((row) => ({ ...row, time: '' }));
  assert.equal(found, [{ time: '', usage_name: 'default', credits: 3, events: '1' }]);
  const others = ['usage_events', 'booked_days', 'refusals'].map((table) => `select * from ${table}`);
  await denied([...others, insert, ...destroying, ...reaching], /ACCESS_DENIED|READONLY/);
  assert.match(await refusal('select sleepEachRow(1) from numbers(12)'), /TIMEOUT|TOO_SLOW/);
});

const insert = "insert into usage_days (workspace_id, billing_id, day) values ('ws', 'bill', today())";
const destroying = [
  "alter table usage_events delete where billing_id != ''",
  'alter table usage_events update cost_micros = 0 where 1',
  'alter table usage_events drop partition 202601',
  'truncate table usage_events',
  'drop table usage_events',
  'create table other (id UInt8) engine = Memory',
  'optimize table usage_events final',
];
// Other ways out of a server than through its tables.
const reaching = [
  "select * from file('/etc/passwd', 'LineAsString')",
  "select * from url('http://127.0.0.1:1/', 'LineAsString')",
  "insert into function file('/tmp/keytally-users-test', 'CSV', 'x UInt8') values (1)",
  'create user somebody',
  'system flush logs',
];

/** Starts the server again, with exactly the rights of a user, and the limits of its profile. */
async function serveAs(user: User, file = usersOfPrograms): Promise<void> {
  if (server) await stopProcess(server, 'SIGTERM', 30_000);
  const own = join(folder, user);
  mkdirSync(own, { recursive: true });
  // A profile of settings may have the name of its user.
  const [profiles = '', users = ''] = file.split('<users>');
  const [, limits = ''] = new RegExp(`<${user}>(.*?)</${user}>`, 's').exec(profiles) ?? [];
  const grants = new RegExp(`<${user}>.*?(<grants>.*?</grants>)?\\s*</${user}>`, 's').exec(users);
  assert.ok(grants, `${user} is a user`);
  const only = `<password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>`;
  writeFileSync(
    join(own, 'users.xml'),
    `<clickhouse><profiles><default>${limits}</default></profiles><quotas><default/></quotas>
     <users><default>${only}${grants[1] ?? ''}</default></users></clickhouse>`,
  );
  const config = join(own, 'config.xml');
  writeFileSync(config, `<clickhouse><users_config>${own}/users.xml</users_config></clickhouse>`);
  const program = clickhouseProgram({ folder: join(folder, 'data'), port, passwords });
  const log = join(folder, 'clickhouse.log');
  server = await start({ ...program, args: [...program.args, '--config', config] }, log);
  writeRecords(folder, [record(program, server)]);
  await untilReady(program, server, log);
}

async function denied(statements: string[], by = /ACCESS_DENIED/): Promise<void> {
  for (const statement of statements) assert.match(await refusal(statement), by, statement);
}

async function refusal(query: string): Promise<string> {
  return books.client.command({ query }).then(
    () => 'it was done',
    (error: { type?: string; message: string }) => `${error.type} ${error.message}`,
  );
}

async function count(table: string): Promise<number> {
  const answer = await books.client.query({ query: `select count() as n from ${table} final`, format: 'JSONEachRow' });
  return Number((await answer.json<{ n: string }>())[0]?.n);
}
