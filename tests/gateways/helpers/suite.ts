import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../../shared/values/key-text.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { makeEndClients, refusals, type EndClients } from '../../helpers/end-clients.ts';
import { eventually, makeWorld, wireTo, type Wire, type World } from '../../helpers/world.ts';
import { END_CLIENT, startApi, startGateway, type Answered, type BeginGateway } from './gateway.ts';

type Gateway = Awaited<ReturnType<typeof startGateway>>;
type Api = Awaited<ReturnType<typeof startApi>>;
type Quirks = {
  /** Passes the envelope on, with the code of the refusal. */
  envelope?: boolean;
  /** Passes RateLimit on when a request passes. */
  rateLimit?: boolean;
};

// 10,000 for who has the time: GATEWAY_REQUESTS=10000 make test FILE=gateways
const REQUESTS = Number(process.env.GATEWAY_REQUESTS ?? 2_000);
const AT_ONCE = 16;

/** Tests a gateway, started with the example of its page, between end clients and an API. */
export function testGateway(name: string, begin: BeginGateway, quirks: Quirks = {}): void {
  let world: World;
  let clients: EndClients;
  let wire: Wire;
  let gateway: Gateway;
  let api: Api;
  let redis: Redis;
  const test = suite(`keytally behind ${name}`);

  test.before(async () => {
    const settings = { VERIFY_DEADLINE_MS: '2000', TRUSTED_PROXIES: '127.0.0.1' };
    world = await makeWorld(['verify'], settings);
    clients = await makeEndClients(world);
    wire = await wireTo(world.verify!.url);
    api = await startApi();
    redis = new Redis(world.env.REDIS_URL!);
    const to = { verifyUrl: wire.url, apiPort: api.port, token: clients.token };
    gateway = await startGateway(name, process.env.TEST_FOLDER!, begin, to);
  });
  test.after(async () => {
    redis?.disconnect();
    await gateway?.stop();
    api?.stop();
    await wire?.cut();
    await world.stop();
  });
  test.before.each(() => void (api.reached.length = 0));

  const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
  const good = (headers: Record<string, string> = {}) => ({ ...bearer(clients.good.key), ...headers });
  const newest = async (key: string): Promise<{ c: number; n: string; r: string }> => {
    const [[, [, json = '']] = ['', []]] = await redis.xrevrange(keyspace.outbox(keyShard(key)!), '+', '-', 'COUNT', 1);
    return JSON.parse(json);
  };

  test('a good key passes in each of three ways, and the API learns whose request it is', async () => {
    const { key, id, meter } = clients.good;
    const before = await clients.usedCredits();
    const basic = (text: string) => ({ Authorization: `Basic ${btoa(text)}` });
    const ways: Record<string, string>[] = [bearer(key), { 'X-Api-Key': key }, basic(`${key}:`), basic(`:${key}`)];
    for (const [i, headers] of ways.entries()) {
      const { status, text, headers: answered } = await gateway.send(`/documents/${i}?a=b`, { headers });
      assert.equal([status, text], [200, 'reached'], Object.keys(headers).join());
      if (quirks.rateLimit) assert.match(String(answered['ratelimit']), /^"key";r=\d+;t=[01]$/);
      const { url, headers: got } = api.reached.at(-1)!;
      const identity = ['key-id', 'workspace-id', 'customer-id', 'meter-id', 'status', 'remaining-credits'];
      assert.is(url, `/documents/${i}?a=b`);
      assert.equal(
        identity.map((one) => got[`x-keytally-${one}`]),
        [id, clients.workspaceId, 'cus%20acm%C3%A9', meter, 'VALID', String(100_000 - before - 1 - i)],
      );
    }
    assert.is(await clients.usedCredits(), before + 4);
  });

  test('each refusal reaches the end client with its status, and never the API', async () => {
    const refused = (answer: Answered, status: number, code: number, what: string) => {
      assert.is(answer.status, status, what);
      assert.is(answer.headers['www-authenticate'], status === 401 ? 'Bearer' : undefined, what);
      assert.is(Number(answer.headers['retry-after']) > 0, status === 429, what);
      if (!quirks.envelope) return;
      const { error } = JSON.parse(answer.text) as { error: { code: number } };
      assert.is(error.code, code, what);
    };
    for (const [kind, [status, code]] of Object.entries(refusals)) {
      const headers = bearer(clients.keys[kind as keyof typeof refusals]);
      const ask = () => gateway.send('/documents', { headers });
      refused(
        kind === 'slow' ? await clients.whileRateLimited(ask, (a) => a.status === 429) : await ask(),
        status,
        code,
        kind,
      );
      // Until it was refused for its rate the slow key has passed.
      if (kind === 'slow') api.reached.length = 0;
    }
    refused(await gateway.send('/documents'), 401, 40110, 'no key');
    const two = good({ 'X-Api-Key': clients.keys.poor });
    refused(await gateway.send('/documents', { headers: two }), 401, 40111, 'two keys');
    assert.is(api.reached.length, 0);
  });

  test('no end client smuggles in an identity', async () => {
    const scopes = [{ representation: 'documents', read: true }];
    const { key, id } = await clients.customers.newKey({ scopes });
    const names = ['Key-Id', 'Workspace-Id', 'Customer-Id', 'Meter-Id', 'Status', 'Remaining-Credits'];
    const spoofed = Object.fromEntries(names.map((one) => [`X-Keytally-${one}`, 'spoofed']));
    const { status } = await gateway.send('/documents', { headers: { ...bearer(key), ...spoofed } });
    assert.is(status, 200);
    const { headers } = api.reached[0]!;
    assert.is(headers['x-keytally-key-id'], id);
    assert.not.match(JSON.stringify(headers), /spoofed/);
    for (const one of ['customer-id', 'meter-id', 'remaining-credits'])
      assert.not.ok(headers[`x-keytally-${one}`], one);
  });

  test('no header, query or path of an end client decides about cost, scope, token, route or repetition', async () => {
    const before = await clients.usedCredits();
    const smuggled = {
      'X-Keytally-Token': 'kt_spoofed',
      'X-Keytally-Idempotency-Key': 'always the same',
      'X-Keytally-Policy': '-',
      'X-Original-Method': 'DELETE',
      'X-Original-URI': '/spoofed',
      'X-Forwarded-Method': 'DELETE',
      'X-Forwarded-Uri': '/spoofed',
      'X-Request-Id': 'always the same',
      'Idempotency-Key': 'always the same',
    };
    for (const method of ['PATCH', 'GET', 'GET']) {
      const sent = { method, headers: good(smuggled) };
      assert.is((await gateway.send('/documents/1?usage=0&policy=-&scope=', sent)).status, 200);
      const { c, n, r } = await newest(clients.good.key);
      assert.equal([c, n, r], [1_000_000, 'requests', `${method} /documents/1`]);
    }
    assert.is(await clients.usedCredits(), before + 3);
    const noScope = { headers: { ...bearer(clients.keys.noScope), ...smuggled } };
    for (const path of ['/documents', '/..%2f-/', '/../-/', '/../../-/?x=/gateway/plain/-/']) {
      assert.not.equal((await gateway.send(path, noScope)).status, 200, path);
    }
    assert.is(api.reached.length, 3);
  });

  test('a header that an end client declares to be of its connection alone is not taken away behind keytally', async () => {
    const names = ['token', 'idempotency-key', 'key-id', 'customer-id'].map((one) => `X-Keytally-${one}`);
    const before = await clients.usedCredits();
    for (let i = 0; i < 2; i++) {
      const { status } = await gateway.send('/documents', { headers: good({ Connection: names.join(', ') }) });
      assert.is(status, 200);
      const { headers } = api.reached[i]!;
      assert.equal(
        [headers['x-keytally-key-id'], headers['x-keytally-customer-id']],
        [clients.good.id, 'cus%20acm%C3%A9'],
      );
    }
    assert.is(await clients.usedCredits(), before + 2);
  });

  test('allow lists are held against the address that the gateway saw, not against what its client says', async () => {
    const scopes = [{ representation: 'documents', read: true }];
    const { key } = await clients.customers.newKey({ scopes, allowedIPs: [END_CLIENT] });
    assert.is((await gateway.send('/documents', { headers: bearer(key) })).status, 200);
    for (const header of ['X-Forwarded-For', 'X-Real-IP', 'X-Envoy-External-Address', 'Forwarded']) {
      const headers = { ...bearer(clients.keys.local), [header]: '203.0.113.9' };
      assert.is((await gateway.send('/documents', { headers })).status, 403, header);
    }
  });

  test('large uploads reach the API whole, and keytally not at all', async () => {
    const body = 'GET / HTTP/1.1\r\n\r\n'.repeat(300_000);
    const before = await clients.usedCredits();
    for (const chunked of [false, true]) {
      const { status } = await gateway.send('/documents', { method: 'POST', headers: good(), body, chunked });
      assert.equal([status, api.reached.at(-1)!.bytes], [200, body.length]);
    }
    assert.is(await clients.usedCredits(), before + 2);
  });

  test('while keytally is down nobody passes, and right after it everybody does', async () => {
    await wire.cut();
    const { status } = await gateway.send('/documents', { headers: good() });
    assert.ok(status >= 500, `answered ${status}`);
    assert.is(api.reached.length, 0);
    await wire.mend();
    await eventually('requests pass again', async () => {
      const answer = await gateway.send('/documents', { headers: good() });
      return answer.status === 200;
    });
  });

  test('while keytally is slow nobody passes, nor waits for long', async () => {
    world.verify!.process.kill('SIGSTOP');
    try {
      const began = performance.now();
      const { status } = await gateway.send('/documents', { headers: good() });
      assert.ok(status >= 500, `answered ${status}`);
      assert.ok(performance.now() - began < 20_000);
      assert.is(api.reached.length, 0);
    } finally {
      world.verify!.process.kill('SIGCONT');
    }
  });

  test(`${REQUESTS} requests are counted right`, async () => {
    const { key } = clients.good;
    const answered = () => gateway.send('/documents', { headers: bearer(key) });
    // What was asked while verify stood still may be decided now.
    assert.is((await answered()).status, 200);
    const [before, events] = [await clients.usedCredits(), await redis.xlen(keyspace.outbox(keyShard(key)!))];
    let left = REQUESTS;
    const statuses: Record<number, number> = {};
    const worker = async () => {
      while (left-- > 0) {
        const { status } = await answered();
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    assert.equal(statuses, { 200: REQUESTS });
    assert.is(await clients.usedCredits(), before + REQUESTS);
    assert.is(await redis.xlen(keyspace.outbox(keyShard(key)!)), events + REQUESTS);
  });

  test.run();
}
