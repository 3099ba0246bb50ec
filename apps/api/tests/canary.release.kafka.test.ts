import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../shared/contract/caller.ts';
import { startOtlpReceiver } from '../../../tests/helpers/otlp-receiver.ts';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { eventually, spawnWorld, hearOutput, wireTo } from '../../../tests/helpers/world.ts';
import { VERIFY_BATCH_PATH, VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { filesWith, formsOf, textOfBooks, textOfPostgres, textOfProcesses, textOfRedis } from './helpers/canary.ts';
import { guarded, inUsableOrder, makeThings, nameOf, requests, urlOf } from './helpers/requests.ts';
import { callsOf, must } from './helpers/calls.ts';

// Secrets pass through every operation and every kind of error; then every place that stores anything is searched for them.

const marker = `marker-${Date.now()}`;
const isSecret = (text: unknown): text is string =>
  typeof text === 'string' && /^\w+_\d\d[0-9A-Za-z]{32}$|^eyJ[\w-]+\./.test(text);
const secrets: string[] = [];

const output = hearOutput();
const receiver = await startOtlpReceiver();
const world = await spawnWorld(['verify'], {
  BUS: 'kafka',
  KAFKA_TOPIC_PARTITIONS: '4',
  LOG_LEVEL: 'trace',
  OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
  OTEL_TRACES_SAMPLER: 'always_on',
  OTEL_METRIC_EXPORT_INTERVAL: '1000',
  // Reconciling waits for the books, which are slow on a busy machine.
  REQUEST_DEADLINE_MS: '60000',
});
const { books } = world;
const programs = [world.api, world.verify!, await world.start('relay'), await world.start('consumer')];
const redis = world.redis.node(0).client;
const tokenFields = { name: 'canary', permissions: [...permissions] };
const { token }: { token: string } = await callsOf(world).make('/api/v1/access-token', tokenFields);
// Markers that a search must find lie beside the secrets: without them, finding nothing would prove nothing.
const things = await makeThings(world, token);
secrets.push(token, things.keyText, things.linkToken, things.jwt);

test('secrets pass through every operation', async () => {
  const body = { key: things.keyText, route: marker, billing: { usage: '1', usageName: marker } };
  const written = secrets.slice(0, 4).flatMap((secret) => [secret, ...encodings(secret)]);
  const free = written.map((text) => ({ route: `GET /${text}`, billing: { usage: '1', usageName: `u ${text}` } }));
  for (const { url } of [world.api, world.verify!])
    for (const text of [{}, ...free.filter(({ billing }) => billing.usageName.length <= 128)]) {
      const answer = await must(200, world.call('post', url + VERIFY_PATH, { ...body, ...text }, marked()));
      assert.is(answer.body.status, 'VALID', answer.text);
    }
  for (const shown of [{ 'X-Api-Key': things.keyText }, { Authorization: `Basic ${btoa(`${things.keyText}:`)}` }])
    for (const text of written) {
      const path = `/gateway/plain/usage=1,name=${marker}/${text}?key=${text}`;
      const passed = await fetch(world.verify!.url + path, { headers: { 'X-Keytally-Token': token, ...shown } });
      assert.is(passed.status, 200, await passed.text());
    }
  for (const route of inUsableOrder(guarded)) {
    const { method, path } = route;
    const name = nameOf(route);
    const made = requests[name]!.make(things);
    const idempotencyKey = `${things.keyText} ${name}`;
    // Each verification of a batch has its own, by which it is cancelled.
    const isBatch = path === VERIFY_BATCH_PATH;
    const batched = { key: things.keyText, idempotencyKey: `${things.keyText} batched` };
    const sent = isBatch ? { verifications: [batched] } : path.endsWith('/cancel') ? batched : made.body;
    const once = method === 'post' && !isBatch ? { 'Idempotency-Key': idempotencyKey } : {};
    const answer = await world.call(method, urlOf(route, made), sent, marked(once));
    assert.ok(answer.status < 300, `${name}: ${answer.text}`);
    for (const made of Object.values<any>(answer.body))
      for (const text of [made?.key, made?.token, made]) if (isSecret(text)) secrets.push(text);
  }
  assert.is(secrets.length, 4 + 5, 'the requests created a key, its rotation, a link token, an access token and a JWT');
});

test('secrets pass through every kind of error, and no answer repeats them', async () => {
  const workspaceId = things.workspace;
  const workspace = `/api/v1/workspace/${workspaceId}`;
  for (const secret of secrets.slice(0, 4)) {
    const wrong: [method: string, path: string, body?: unknown, options?: object][] = [
      ['get', `/${secret}`],
      ['get', `/api/v1/workspace/${secret}`],
      ['get', `${workspace}/api-key/${secret}`],
      ['delete', `/api/v1/link-token/${secret}x`],
      ['get', `/api/v1/usage/${secret}?format=csv`],
      ['get', `/api/v1/workspace?${secret}=1`],
      ['get', `/api/v1/workspace?cursor=${secret}&limit=${secret}`],
      ['put', `/api/v1/workspace/${secret}`],
      ['post', '/api/v1/workspace', { name: { [secret]: secret }, [secret]: 1 }],
      ['post', '/api/v1/workspace', { name: 'n', defaultAllowedIPs: [secret], defaultKeyPrefix: secret }],
      ['post', '/api/v1/api-key', { name: 'n', workspaceId: secret }],
      ['post', '/api/v1/api-key', { name: 'n', workspaceId, scopes: [{ representation: secret.slice(0, 100) }] }],
      ['post', '/api/v1/jwt', { payload: { [secret]: secret, iss: secret } }],
      ['post', '/api/v1/jwt/verify', { jwt: secret, more: secret }],
      ['post', '/api/v1/access-token', { name: 'n', permissions: [secret], workspaceIds: [secret] }],
      ['post', VERIFY_PATH, { key: secret, ip: secret, billing: { usage: secret } }],
      ['post', VERIFY_PATH, undefined, { raw: `{"key": ${secret}` }],
      ['post', VERIFY_PATH, { key: things.keyText }, { token: secret === token ? null : secret }],
      ['post', VERIFY_PATH, { key: secret }, { headers: { 'Content-Type': secret.slice(0, 60) } }],
      ['get', workspace, undefined, { token: null, headers: { Authorization: `Basic ${btoa(`${secret}:`)}` } }],
      ['get', workspace, undefined, { headers: { 'X-Api-Key': secret, Cookie: secret, 'User-Agent': secret } }],
      ['get', workspace, undefined, { headers: { 'X-Request-Id': secret } }],
    ];
    for (const [method, path, body, options] of wrong) {
      for (const { url } of path === VERIFY_PATH ? [world.api, world.verify!] : [world.api]) {
        const { text, headers } = await world.call(method, url + path, body, { token, ...options });
        assert.not.ok(text.includes(secret), `${method} ${path} ${text}`);
        assert.is.not(headers.get('x-request-id'), secret);
      }
    }
    for (const path of [`${secret}/-`, `plain/${secret}`, `plain/scope=${secret}.read`, `plain/-/${secret}`]) {
      for (const headers of [
        { 'X-Keytally-Token': secret, 'X-Api-Key': 'none' },
        { 'X-Keytally-Token': token, Authorization: `Bearer ${secret}x` },
      ]) {
        const refused = await fetch(`${world.verify!.url}/gateway/${path}/`, { headers });
        const answer = JSON.stringify([[...refused.headers], await refused.text()]);
        assert.ok(refused.status >= 400, answer);
        assert.not.ok(answer.includes(secret), `/gateway/${path} ${answer}`);
      }
    }
    await speak(world.api.url, [`GET /${secret} HTTP/1.1\r\n${secret}\r\n\r\n`]);
  }
});

test('secrets pass through crashes of a connection, of Redis and of the programs', async () => {
  const wire = await wireTo(world.env.REDIS_URL!);
  const verify = await world.start('verify', { REDIS_URL: wire.url });
  const call = () => world.call('post', verify.url + VERIFY_PATH, { key: things.keyText }, { token });
  await wire.cut();
  await eventually('Redis is unavailable', async () => (await call()).status === 503);
  await verify.stop('SIGABRT');

  // A Postgres backend that dies while the key's secret is among the parameters of its statement.
  const api = await world.start('api');
  const workspace = await callsOf(world, token).make('/api/v1/workspace', { name: 'crash' });
  await world.sql.begin(async (tx) => {
    await tx`lock table key_texts in access exclusive mode`;
    const created = world
      .call('post', `${api.url}/api/v1/api-key`, { name: 'n', workspaceId: workspace.id }, { token })
      .catch(String);
    await eventually('an insert waits', async () => {
      const [row] = await world.sql<{ pid: number }[]>`
        select pid from pg_locks where not granted and relation = 'key_texts'::regclass`;
      return row && (await world.sql`select pg_terminate_backend(${row.pid})`);
    });
    return created;
  });
  await api.stop('SIGSEGV');
  assert.match(output(), /"level":(40|50|60)/, 'the crashes were logged');
});

test('the secrets are nowhere, and the markers beside them are found', async () => {
  const needles = [...new Set(secrets)].flatMap(formsOf);
  const inBooks = () => textOfBooks(books);
  await eventually('the event is in the books', async () => (await inBooks()).includes(marker));
  const inTelemetry = () => receiver.requests.map(({ text }) => text).join('\n');
  const told = ['"verify key"', '"relay usage event"', '"insert usage event"', 'keytally_http_request_seconds'];
  await eventually('the collector has it', async () => told.every((one) => inTelemetry().includes(one)));
  const metrics = await Promise.all(programs.map(async ({ url }) => (await fetch(`${url}/metrics`)).text()));
  const texts: [place: string, text: string, shown: string][] = [
    ['logs', output(), marker],
    ['metrics', metrics.join('\n'), 'keytally_http_request_seconds'],
    ['telemetry', inTelemetry(), things.key],
    ['Postgres', await textOfPostgres(world.sql), things.workspace],
    ['Redis', await textOfRedis(redis), things.workspace],
    ['the books', await inBooks(), marker],
    ['process lists', textOfProcesses(), 'apps/api/main.ts'],
  ];
  for (const [place, text, shown] of texts) {
    assert.ok(text.includes(shown), `${place} could not be searched`);
    const found = needles.filter((needle) => text.includes(needle));
    assert.equal(found, [], `${place} hold a secret`);
  }
  // What the servers store on disk (tables, write-ahead logs, Kafka's records) and log. Not what other tests store.
  const run = dirname(process.env.TEST_FOLDER!);
  const files = readdirSync(run).filter((name) => !name.startsWith('slot-'));
  const places = files.map((name) => join(run, name));
  const searched = (texts: string[]) => filesWith(places, texts);
  for (const [place, shown] of Object.entries({ postgres: things.workspace, redis: things.key, kafka: marker })) {
    const isSearched = () => searched([shown]).some((file) => file.startsWith(join(run, place)));
    await eventually(`the files of ${place} could be searched`, async () => isSearched());
  }
  assert.equal(searched(needles), []);
});

// As a client may have encoded it by mistake, once or twice.
function encodings(secret: string): string[] {
  const once = secret.replaceAll('_', '%5F').replaceAll('.', '%2e');
  const all = Array.from(secret, (one) => `%${one.charCodeAt(0).toString(16)}`).join('');
  return [once, once.replaceAll('%5F', '%5f'), once.replaceAll('%', '%25'), all];
}

const marked = (headers: Record<string, string> = {}) => ({ token, headers: { 'X-Request-Id': marker, ...headers } });
