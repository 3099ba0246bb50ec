import { chmodSync, chownSync, copyFileSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { request as ask } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { makeCertificate } from '../helpers/certificate.ts';
import { makeCustomers } from '../helpers/customers.ts';
import { eventually, spawnWorld } from '../helpers/world.ts';

// Programs with encrypted connections to Postgres and ClickHouse; redis-users.release.test.ts does the same for Redis.
const folder = join(process.env.TEST_FOLDER ?? '', 'tls-to-servers');
let certificate: string;
let key: string;
let asked = 0;

mkdirSync(folder, { recursive: true });
({ certificate, key } = makeCertificate(folder, 'servers'));
const world = await spawnWorld();
await letPostgresSpeakTls();
const books = beforeClickHouse();
await new Promise<void>((resolve) => books.listen(0, '127.0.0.1', resolve));
test.after(async () => {
  books?.closeAllConnections();
  books?.close();
});

test('api and consumer work over encrypted connections to a Postgres and a ClickHouse whose certificates they check', async () => {
  const { port } = books.address() as AddressInfo;
  const encrypted = {
    DATABASE_URL: overTls(world.env.DATABASE_URL!),
    CLICKHOUSE_URL: world.env.CLICKHOUSE_URL!.replace(/^http:(.*@).*?(?=\/[^/]*$)/, `https:$1127.0.0.1:${port}`),
    NODE_EXTRA_CA_CERTS: certificate,
  };
  const { body } = await world.call('post', '/api/v1/workspace', { name: 'encrypted' });
  const customers = makeCustomers(world, body.workspace.id);
  const { key: text, meter } = await customers.meteredKey('10');
  const { id } = await customers.billing(meter);
  const [api, consumer] = await Promise.all([world.start('api', encrypted), world.start('consumer', encrypted)]);
  await world.api.stop();
  const decided = await customers.verify({ key: text, billing: { usage: '2' } }, { url: api.url });
  assert.is(decided.body.status, 'VALID', decided.text);
  const usage = async () => (await world.call('get', `${api.url}/api/v1/usage/${id}`)).body.data[0];
  await eventually('the usage is in the books', async () => (await usage())?.totalBillingUsage === '2');
  assert.ok(asked > 0, 'the books were asked over TLS');
  const connections = await world.sql<{ ssl: boolean; pid: number }[]>`
    select s.ssl, s.pid from pg_stat_ssl s join pg_stat_activity a using (pid)
    where a.datname = current_database() and a.usename <> current_user and a.pid <> pg_backend_pid()`;
  assert.ok(connections.length > 0, 'there are connections of the programs');
  assert.equal(
    connections.filter(({ ssl }) => !ssl),
    [],
  );
  await Promise.all([api.stop(), consumer.stop()]);
});

test('the api refuses a Postgres whose certificate it does not trust', async () => {
  const sql = connectPostgres(overTls(world.env.DATABASE_URL!), { max: 1 });
  const failed = await sql`select 1`.then(
    () => undefined,
    (error: { code?: string }) => error.code,
  );
  await sql.end();
  assert.is(failed, 'DEPTH_ZERO_SELF_SIGNED_CERT');
});

function overTls(url: string): string {
  const encrypted = new URL(url);
  encrypted.searchParams.set('sslmode', 'verify-full');
  return encrypted.href;
}

// Clients that do not ask for TLS still connect without it: the other tests share this server.
async function letPostgresSpeakTls(): Promise<void> {
  const [row] = await world.sql<{ folder: string }[]>`select current_setting('data_directory') as folder`;
  const { uid, gid } = statSync(row!.folder);
  for (const [setting, from] of [
    ['ssl_cert_file', certificate],
    ['ssl_key_file', key],
  ] as const) {
    const own = join(row!.folder, `${setting}.pem`);
    copyFileSync(from, own);
    chownSync(own, uid, gid);
    chmodSync(own, 0o600);
    await world.sql`alter system set ${world.sql(setting)} = ${world.sql.unsafe(`'${own}'`)}`;
  }
  await world.sql`alter system set ssl = on`;
  await world.sql`select pg_reload_conf()`;
  await eventually('Postgres speaks TLS', async () => {
    const [now] = await world.sql<{ ssl: string }[]>`select current_setting('ssl') as ssl`;
    return now!.ssl === 'on';
  });
}

// A server with TLS in front of the run's ClickHouse, which has none.
function beforeClickHouse(): Server {
  const target = new URL(world.env.CLICKHOUSE_URL!);
  return createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (request, response) => {
    asked++;
    const { method, headers, url } = request;
    const passed = ask({ host: target.hostname, port: target.port, path: url, method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  });
}
