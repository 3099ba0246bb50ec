import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../../shared/values/key-text.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { envelopeProblem } from '../../../tests/helpers/contract.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { makeEndClients, MOST_PER_SECOND, refusals, type EndClients } from '../../../tests/helpers/end-clients.ts';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { makeWorld, wireTo, type Started, type World } from '../../../tests/helpers/world.ts';

// What any gateway asks, with headers, paths and queries of which the end client's are a part.

let world: World;
let clients: EndClients;
/** The same program, which trusts this machine as a proxy. */
let behind: Started;
let redis: Redis;
const POLICY = 'usage=1,name=reads,scope=documents.read';
const settings = { VERIFY_DEADLINE_MS: '2000' };

const test = suite('the gateway endpoint');
test.before(async () => {
  // A busy machine is given time.
  world = await makeWorld(['verify'], settings);
  clients = await makeEndClients(world);
  behind = await world.start('verify', { TRUSTED_PROXIES: '127.0.0.1' });
  redis = new Redis(world.env.REDIS_URL!);
});
test.after(async () => {
  redis?.disconnect();
  await world.stop();
});

type Ask = { to?: string; method?: string; body?: string; token?: string | null; headers?: Record<string, string> };
async function ask(path: string, options: Ask = {}) {
  const { to = world.verify!.url, method = 'GET', body, token = clients.token, headers = {} } = options;
  const sent = { ...(token !== null && { 'X-Keytally-Token': token }), ...headers };
  const init = { method, headers: sent, ...(body !== undefined && { body }) };
  const response = await fetch(`${to}/gateway/${path}`, init);
  const text = await response.text();
  const { status } = response;
  // nginx is told 403 where the envelope says 429.
  const problem =
    status < 400 || method === 'HEAD' || path.startsWith('nginx')
      ? undefined
      : envelopeProblem({ status, headers: response.headers, text });
  assert.is(problem, undefined, text);
  const { error } = (text ? JSON.parse(text) : {}) as { error?: { code: number; message: string } };
  return { status, headers: response.headers, text, error };
}
const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
const pass = (path: string, options: Ask = {}) =>
  ask(path, { ...options, headers: { ...bearer(clients.good.key), ...options.headers } });

/** The events of a key's shard, the newest last. */
async function events(key: string): Promise<{ c: number; n: string; r: string }[]> {
  const entries = await redis.xrange(keyspace.outbox(keyShard(key)!), '-', '+');
  return entries.map(([, [, json = '']]) => JSON.parse(json));
}

test('a request that may pass is 200 without a body, and says whose it is and what is left', async () => {
  const before = await clients.usedCredits();
  const { status, text, headers } = await pass(`plain/${POLICY}/documents/1?x`);
  assert.equal([status, text, headers.get('content-length')], [200, '', '0']);
  const { good, workspaceId } = clients;
  const expected = {
    'x-keytally-key-id': good.id,
    'x-keytally-workspace-id': workspaceId,
    'x-keytally-customer-id': 'cus%20acm%C3%A9',
    'x-keytally-meter-id': good.meter,
    'x-keytally-status': 'VALID',
    'x-keytally-remaining-credits': String(100_000 - before - 1),
    'ratelimit-policy': `"key";q=${MOST_PER_SECOND};w=1`,
    'x-ratelimit-limit': String(MOST_PER_SECOND),
  };
  for (const [name, value] of Object.entries(expected)) assert.is(headers.get(name), value, name);
  assert.match(headers.get('ratelimit') ?? '', /^"key";r=\d{5};t=[01]$/);
  assert.match(headers.get('x-ratelimit-remaining') ?? '', /^\d{5}$/);
  assert.match(headers.get('x-ratelimit-reset') ?? '', /^\d{10}$/);
  assert.is(await clients.usedCredits(), before + 1);
  const { c, n, r } = (await events(good.key)).at(-1)!;
  assert.equal([c, n, r], [1_000_000, 'reads', 'GET /documents/1']);
});

test('identity headers are always there, empty where there is nothing, whatever the end client sent', async () => {
  const { key, id } = await clients.customers.newKey();
  const spoofed = { 'X-Keytally-Customer-Id': 'admin', 'X-Keytally-Remaining-Credits': '1', RateLimit: '"x";r=9' };
  const { status, headers } = await ask('plain/-/', { headers: { ...bearer(key), ...spoofed } });
  assert.equal([status, headers.get('x-keytally-key-id')], [200, id]);
  const empty = ['X-Keytally-Customer-Id', 'X-Keytally-Meter-Id', 'X-Keytally-Remaining-Credits', 'RateLimit'];
  const limits = ['RateLimit-Policy', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];
  for (const name of [...empty, ...limits]) assert.is(headers.get(name), '', name);
});

test('what may be overdrawn without end has no remaining credits to tell, what has a cap has', async () => {
  for (const [fields, remaining] of [
    [{ totalCredits: '1', allowOverages: true }, ''],
    [{ totalCredits: '1', allowOverages: true, spendCap: '2.5' }, '2'],
    [{ totalCredits: '9', spendCap: '0.75' }, '0.25'],
  ] as const) {
    const { key } = await clients.customers.newKey({ externalMeterId: await clients.customers.newMeter(fields) });
    const { headers } = await ask('plain/usage=0.5/', { headers: bearer(key) });
    assert.is(headers.get('x-keytally-remaining-credits'), remaining);
  }
});

test('a key that may not pass is refused, and costs nothing', async () => {
  const before = await clients.usedCredits();
  for (const [name, [status, code]] of Object.entries(refusals)) {
    const send = () => ask(`plain/${POLICY}/`, { headers: bearer(clients.keys[name as keyof typeof refusals]) });
    const answer = name === 'slow' ? await clients.whileRateLimited(send, (a) => a.status === 429) : await send();
    assert.equal([answer.status, answer.error?.code], [status, code], name);
    assert.is(answer.headers.get('www-authenticate'), status === 401 ? 'Bearer' : null, name);
    assert.is(answer.headers.get('retry-after') !== null, status === 429, name);
    assert.is(answer.headers.get('x-keytally-key-id'), null, name);
    if (name !== 'slow') continue;
    assert.match(answer.headers.get('ratelimit') ?? '', /^"key";r=0;t=[01]$/);
    assert.is(answer.headers.get('ratelimit-policy'), '"key";q=1;w=1');
  }
  assert.is(await clients.usedCredits(), before);
});

test('nginx is told 403 where others are told 429, with the status that it stands for', async () => {
  for (const [name, status] of [
    ['slow', 'RATE_LIMITED'],
    ['poor', 'USAGE_LIMITED'],
  ] as const) {
    const send = () => ask(`nginx/${POLICY}/`, { headers: bearer(clients.keys[name]) });
    const answer = await clients.whileRateLimited(send, (a) => a.status === 403);
    assert.equal([answer.status, answer.headers.get('x-keytally-status')], [403, status]);
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
  }
  const { status, headers } = await ask(`nginx/${POLICY}/`, { headers: bearer(clients.keys.expired) });
  assert.equal([status, headers.get('x-keytally-status')], [401, 'EXPIRED']);
});

test('the key is taken in each of three ways; none, two, and several headers of one name are refused', async () => {
  const { key } = clients.good;
  const other = clients.keys.poor;
  const basic = (text: string) => ({ Authorization: `Basic ${btoa(text)}` });
  const ways = [
    bearer(key),
    { 'X-Api-Key': key },
    basic(`${key}:`),
    basic(`:${key}`),
    { ...bearer(key), 'x-api-key': key },
  ];
  for (const headers of ways) assert.is((await ask(`plain/${POLICY}/`, { headers })).status, 200);
  const wrong: [Record<string, string>, number][] = [
    [{}, 40110],
    [{ Authorization: 'Bearer' }, 40110],
    [{ Authorization: `Digest ${key}` }, 40110],
    [{ ...bearer(key), 'X-Api-Key': other }, 40111],
    [basic(`${key}:${other}`), 40111],
    [bearer(`${key} ${key}`), 40112],
    [bearer('\u00e9'.repeat(40)), 40112],
    [{ 'X-Api-Key': 'x'.repeat(8_000) }, 40112],
  ];
  for (const [headers, code] of wrong) {
    const { status, error } = await ask(`plain/${POLICY}/?api_key=${key}`, { headers });
    assert.equal([status, error?.code], [401, code], JSON.stringify(headers));
  }
  for (const [name, prefix] of [
    ['Authorization', 'Bearer '],
    ['X-Api-Key', ''],
  ]) {
    for (const [second, expected] of [
      [other, 40111],
      [key, 200],
    ] as const) {
      const lines = [key, second].map((one) => `${name}: ${prefix}${one}\r\n`).join('');
      const head = `GET /gateway/plain/-/ HTTP/1.1\r\nHost: a\r\nX-Keytally-Token: ${clients.token}\r\n${lines}\r\n`;
      const [answer] = (await speak(world.verify!.url, [head])).answers;
      const code = answer!.text ? JSON.parse(answer!.text).error.code : answer!.status;
      assert.is(code, expected, `two of ${name}`);
    }
  }
});

test('the gateway itself has to show an access token that may verify, and no end client can stand in for it', async () => {
  const { customers, good } = clients;
  const narrow = { name: 'reader', permissions: ['key:read'] };
  const reader = (await must(201, world.call('post', '/api/v1/access-token', narrow))).body.accessToken.token;
  for (const [token, status, code] of [
    [null, 401, 40101],
    ['', 401, 40101],
    ['kt_nobody', 401, 40102],
    [good.key, 401, 40102],
    [reader, 403, 40301],
  ] as const) {
    const answer = await pass('plain/-/', { token, headers: { 'X-Api-Key': good.key } });
    assert.equal([answer.status, answer.error?.code], [status, code], answer.text);
    assert.match(answer.error!.message, /X-Keytally-Token/);
  }
  const elsewhere = (await must(201, world.call('post', '/api/v1/workspace', { name: 'o' }))).body.workspace.id;
  const foreign = { name: 'k', workspaceId: elsewhere };
  const { key } = (await must(201, world.call('post', '/api/v1/api-key', foreign))).body.apiKey;
  assert.is((await ask('plain/-/', { headers: bearer(key) })).error?.code, 40112, 'not of its workspaces');
  assert.is((await customers.verify({ key })).body.status, 'VALID');
});

test('a policy says costs, names and scopes; a wrong one is a 400 that says what would be right', async () => {
  const { good } = clients;
  const before = await clients.usedCredits();
  for (const policy of ['usage=0.25', 'scope=documents.read', '-', 'name=a%2Cb%3Dc%20%C3%A9,usage=2%2E5']) {
    assert.is((await pass(`plain/${policy}/x`)).status, 200, policy);
  }
  assert.is(await clients.usedCredits(), before + 2.75);
  assert.is((await events(good.key)).at(-1)!.n, 'a,b=c é');
  const scopes = ['scope=documents.read+documents.del', 'scope=none.read', 'scope=documents.read+a%2Fb.c.update'];
  for (const policy of scopes) assert.is((await pass(`plain/${policy}/`)).error?.code, 40310, policy);

  const wrong = [
    '',
    'usage',
    'usage=',
    'usage=-1',
    'usage=1e3',
    'usage=0.0000001',
    'usage=99999999999',
    'usage=1,usage=1',
  ];
  wrong.push('cost=1', '-,usage=1', 'usage=1,', 'name=%', 'name=%00', `name=${'x'.repeat(129)}`, 'scope=documents');
  wrong.push('scope=documents.write', 'scope=documents.read+', 'scope=.read', 'scope=!.read');
  for (const policy of wrong) {
    const { status, error } = await pass(`plain/${policy}/usage=1/`);
    assert.equal([status, error?.code], [400, 40001], policy);
    assert.match(error!.message, /usage=2,name=tokens,scope=users\.read\+posts\.create/);
  }
  for (const path of ['', 'none/-/', '__proto__/-/', 'NGINX/-/']) {
    const { status, error } = await pass(path);
    assert.equal([status, error?.code], [400, 40001], path);
    assert.match(error!.message, /nginx, envoy, traefik, caddy, apisix, haproxy, kong, plain/);
  }
  const { error } = await pass(`plain/${good.key}/`);
  assert.match(error!.message, /"\[secret\]" is no part/);
  assert.is(await clients.usedCredits(), before + 2.75);
});

test('neither headers nor the query nor the path behind the policy decide about money or rights', async () => {
  const before = await clients.usedCredits();
  const smuggled = {
    'X-Keytally-Usage': '0',
    'X-Keytally-Policy': '-',
    'X-Keytally-Cost': '0',
    'X-Original-URI': '/-/',
  };
  const path = `plain/${POLICY}/..%2f-/gateway/plain/-/?usage=0&policy=-`;
  assert.is((await pass(path, { headers: smuggled })).status, 200);
  assert.is(await clients.usedCredits(), before + 1);
  assert.is((await ask(path, { headers: { ...bearer(clients.keys.noScope), ...smuggled } })).status, 403);
});

test('each dialect takes method and path from its own headers alone, and records them without the query', async () => {
  const original = { 'X-Original-Method': 'PUT', 'X-Original-URI': '/original?q=1' };
  const forwarded = { 'X-Forwarded-Method': 'PATCH', 'X-Forwarded-Uri': '/forwarded/\u00e9?q=1' };
  const seen: Record<string, string> = {
    nginx: 'PUT /original',
    haproxy: 'PUT /original',
    traefik: 'PATCH /forwarded/?',
    caddy: 'PATCH /forwarded/?',
    apisix: 'PATCH /forwarded/?',
    kong: 'PATCH /forwarded/?',
    envoy: 'DELETE /appended',
    plain: 'DELETE /appended',
  };
  for (const [dialect, route] of Object.entries(seen)) {
    const options = { method: 'DELETE', headers: { ...original, ...forwarded } };
    assert.is((await pass(`${dialect}/-/appended?q=1`, options)).status, 200);
    assert.is((await events(clients.good.key)).at(-1)!.r, route, dialect);
  }
});

test('an address counts from the header of its dialect, and from trusted proxies alone', async () => {
  const at = (dialect: string, headers: Record<string, string>, to?: string) =>
    ask(`${dialect}/-/`, { headers: { ...bearer(clients.keys.local), ...headers }, ...(to && { to }) });
  for (const dialect of ['plain', 'envoy', 'traefik', 'caddy', 'apisix', 'kong', 'nginx', 'haproxy']) {
    const [own, others] = /nginx|haproxy/.test(dialect)
      ? ['X-Real-IP', 'X-Forwarded-For']
      : ['X-Forwarded-For', 'X-Real-IP'];
    for (const address of ['203.0.113.9', '2001:db8::1']) {
      assert.is((await at(dialect, { [own]: address }, behind.url)).status, 200, `${dialect} ${address}`);
      assert.is((await at(dialect, { [others]: address }, behind.url)).status, 403, `${dialect}, another's header`);
      assert.is((await at(dialect, { [own]: address })).status, 403, `${dialect}, from anybody`);
    }
  }
  const made = '203.0.113.9, 198.51.100.1';
  assert.is((await at('plain', { 'X-Forwarded-For': made }, behind.url)).error?.code, 40311, 'the last one counts');
});

test('any method is answered alike, and a body is never looked at, nor does it end the connection', async () => {
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    const { status, headers } = await pass(`plain/${POLICY}/`, { method });
    assert.equal([status, headers.get('x-keytally-status')], [200, 'VALID'], method);
  }
  const refused = await ask('plain/-/', { method: 'HEAD' });
  assert.equal([refused.status, refused.text], [401, '']);

  const head = (name: string) =>
    `POST /gateway/${name}/-/ HTTP/1.1\r\nHost: a\r\nX-Keytally-Token: ${clients.token}\r\nX-Api-Key: ${clients.good.key}\r\n`;
  const large = 'GET / HTTP/1.1\r\n\r\n'.repeat(100_000);
  for (const dialect of ['plain', 'envoy', 'traefik']) {
    const sized = `${head(dialect)}Content-Type: application/json\r\nContent-Length: ${large.length}\r\n\r\n${large}`;
    const chunked = `${head(dialect)}Transfer-Encoding: chunked\r\n\r\n3\r\n{"x\r\n0\r\n\r\n`;
    const last = `${head(dialect)}Content-Length: 0\r\n\r\n`;
    const { answers, open } = await speak(world.verify!.url, [sized, chunked, last], { answers: 3 });
    assert.equal([answers.map((answer) => answer.status), open], [[200, 200, 200], true]);
  }
});

test("a gateway's retry is debited once by its own key, and X-Request-Id is never taken for one", async () => {
  const before = await clients.usedCredits();
  const once = { 'X-Keytally-Idempotency-Key': 'gateway-1' };
  for (let i = 0; i < 3; i++) assert.is((await pass(`plain/${POLICY}/`, { headers: once })).status, 200);
  assert.is(await clients.usedCredits(), before + 1);
  const other = await pass('plain/usage=2/', { headers: once });
  assert.equal([other.status, other.error?.code], [409, 40904]);
  const made = { 'X-Request-Id': 'mine', 'Idempotency-Key': 'mine', 'X-Idempotency-Key': 'mine' };
  for (let i = 0; i < 2; i++) {
    const { headers } = await pass(`plain/${POLICY}/`, { headers: made });
    assert.is(headers.get('x-request-id'), 'mine');
  }
  assert.is(await clients.usedCredits(), before + 3);
});

test("the addresses in the page's examples are right, with one for each dialect", async () => {
  const page = readFileSync(new URL('../../../deploy/gateways/README.md', import.meta.url), 'utf8');
  const addresses = [...page.matchAll(/\/gateway\/([a-z]+)\/usage=[^\s'"`/]+/g)];
  assert.equal(new Set(addresses.map(([, dialect]) => dialect)).size, 7);
  for (const [address] of addresses) {
    assert.is((await pass(`${address.slice('/gateway/'.length)}/`)).status, 200, address);
    const noScope = await ask(address.slice('/gateway/'.length), { headers: bearer(clients.keys.noScope) });
    assert.is(noScope.status, 403, address);
  }
});

test('while nothing can be decided requests are refused with 503, never let through', async () => {
  const wire = await wireTo(world.env.REDIS_URL!);
  const cut = await world.start('verify', { REDIS_URL: wire.url, VERIFY_DEADLINE_MS: '250' });
  await wire.cut();
  for (const dialect of ['plain', 'nginx']) {
    const { status, headers, text } = await pass(`${dialect}/-/`, { to: cut.url });
    assert.equal([status, JSON.parse(text).error.code], [503, 50311], text);
    assert.ok(headers.get('retry-after'));
  }
});

test('it is in the document, and counted in the metrics', async () => {
  const { paths } = (await (await fetch(`${world.verify!.url}/openapi.json`)).json()) as any;
  const { responses } = paths['/gateway/{dialect}/{policy}/{path}'].get;
  assert.equal(Object.keys(responses), ['200', '400', '401', '403', '408', '409', '429', '431', '500', '503']);
  const metrics = await (await fetch(`${world.verify!.url}/metrics`)).text();
  assert.match(
    metrics,
    /keytally_http_request_seconds_count\{[^}]*method="GET",route="\/gateway\/",status="200"[^}]*\} \d/,
  );
});

test.run();
