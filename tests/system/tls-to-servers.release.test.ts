import { chmodSync, chownSync, copyFileSync, readFileSync, statSync } from 'node:fs';
import { request as ask } from 'node:http';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { succeeds } from '../../shared/runtime/succeeds.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { connectPostgres, type Sql } from '../../shared/stores/postgres.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { makeCertificate } from '../helpers/certificate.ts';
import { eventually } from '../helpers/eventually.ts';
import { listen } from '../helpers/listen.ts';
import { makeOwnRedis } from '../helpers/own-redis.ts';

// Connections to a Postgres, a ClickHouse and a Redis with TLS.

const folder = join(process.env.TEST_FOLDER ?? '', 'tls-to-servers');
const { certificate, key } = makeCertificate(folder, 'servers');
const usual = getCACertificates('default');
const [tlsPort = 0] = await freePorts(1);
test.after(() => setDefaultCACertificates(usual));

test('a server whose certificate is not trusted is refused, and one whose is gets encrypted connections', async () => {
  const encrypted = new URL(process.env.TEST_POSTGRES_URL!);
  encrypted.searchParams.set('sslmode', 'verify-full');
  await letPostgresSpeakTls();
  const books = new URL(process.env.TEST_CLICKHOUSE_URL!.replace('http:', 'https:'));
  books.port = String((await listen(beforeClickHouse())).port);

  const isEncrypted = async () => {
    const sql = connectPostgres(encrypted.href, { max: 1 });
    return sql<[{ ssl: boolean }]>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`
      .then(([row]) => row.ssl, codeOf)
      .finally(() => sql.end());
  };
  const answers = async () => {
    const { client, close } = connectClickHouse(books.href);
    return client
      .ping({ select: true })
      .then(({ success, ...more }) => success || codeOf(more), codeOf)
      .finally(close);
  };
  await makeOwnRedis('tls', {
    'tls-port': tlsPort,
    'tls-cert-file': certificate,
    'tls-key-file': key,
    'tls-auth-clients': 'no',
    'tls-ca-cert-file': certificate,
  });
  const isConnected = async () => {
    const connection = connectRedis(`rediss://localhost:${tlsPort}`, makeLogger('test', 'silent'), systemClock);
    return succeeds(connection.connected(5_000)).finally(() => connection.close());
  };
  const refusal = 'DEPTH_ZERO_SELF_SIGNED_CERT';
  assert.equal([await isEncrypted(), await answers(), await isConnected()], [refusal, refusal, false]);
  setDefaultCACertificates([...usual, readFileSync(certificate, 'utf8')]);
  assert.equal([await isEncrypted(), await answers(), await isConnected()], [true, true, true]);
});

function codeOf(failure: object): string | undefined {
  const { error, code } = failure as { error?: { code?: string }; code?: string };
  return error?.code ?? code;
}

// Clients that do not ask for TLS still connect without it: other tests share this server.
async function letPostgresSpeakTls(): Promise<void> {
  const sql: Sql = connectPostgres(process.env.TEST_POSTGRES_URL!, { max: 1 });
  const [row] = await sql<[{ folder: string }]>`select current_setting('data_directory') as folder`;
  const { uid, gid } = statSync(row.folder);
  for (const [setting, from] of [
    ['ssl_cert_file', certificate],
    ['ssl_key_file', key],
  ] as const) {
    const own = join(row.folder, `${setting}.pem`);
    copyFileSync(from, own);
    chownSync(own, uid, gid);
    chmodSync(own, 0o600);
    await sql`alter system set ${sql(setting)} = ${sql.unsafe(`'${own}'`)}`;
  }
  await sql`alter system set ssl = on`;
  await sql`select pg_reload_conf()`;
  await eventually('Postgres speaks TLS', async () => {
    const [now] = await sql<[{ ssl: string }]>`select current_setting('ssl') as ssl`;
    return now.ssl === 'on';
  });
  await sql.end();
}

// A server with TLS in front of the run's ClickHouse, which has none.
function beforeClickHouse() {
  const { hostname, port } = new URL(process.env.TEST_CLICKHOUSE_URL!);
  return createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (request, response) => {
    const { method, headers, url } = request;
    request.pipe(
      ask({ host: hostname, port, path: url, method, headers }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      }),
    );
  });
}
