import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../shared/values/key-text.ts';
import { makeEndClients, refusals, type EndClients } from '../../tests/helpers/end-clients.ts';
import { waitingEvents } from '../../tests/helpers/outbox.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';
import { frameworks, type App } from './helpers/frameworks.ts';
import { identityOf, keytally, type Keytally } from './index.ts';
import { makeProxy, type Proxy } from './helpers/proxy.ts';

let world: World;
let proxy: Proxy;
let client: Keytally;
let clients: EndClients;
let keys: EndClients['keys'] & { limited: string };
const apps: Record<string, App> = {};
let redis: Redis;
let handled = 0;

const test = suite('the guards');
test.before(async () => {
  world = await makeWorld(['verify']);
  proxy = await makeProxy(world.verify!.url);
  client = keytally({ url: proxy.url, token: world.team.token, verifyTimeoutMs: 20_000 });
  redis = new Redis(world.env.REDIS_URL!);
  clients = await makeEndClients(world);
  const scopes = [{ representation: 'documents', read: true }];
  const limited = await clients.customers.newKey({ scopes, customerId: 'cus', rateLimitPerSecond: 1000 });
  keys = { ...clients.keys, limited: limited.key };
  const costOf = (url: string) => {
    const n = new URL(url, 'http://a').searchParams.get('n') ?? '1';
    return n === 'free' ? '0' : { usage: n, usageName: 'requests' };
  };
  for (const [name, start] of Object.entries(frameworks)) {
    apps[name] = await start(client, { costOf, scopes }, (identity) => {
      handled += 1;
      return identity;
    });
  }
});
test.after(async () => {
  redis?.disconnect();
  await Promise.all(Object.values(apps).map((app) => app.stop()));
  proxy?.stop();
  await world.stop();
});
test.before.each(() => void (handled = 0));

for (const name of Object.keys(frameworks)) {
  const get = (headers: Record<string, string>, query = '') =>
    fetch(`${apps[name]!.url}/v1/documents/1${query}`, { headers });
  const bearer = (key: string | undefined, more: object = {}) => get({ Authorization: `Bearer ${key}`, ...more });
  const basic = (text: string) => get({ Authorization: `Basic ${btoa(text)}` });

  test(`${name}: a good key passes in each of the three ways, and the handler knows whose request it is`, async () => {
    const { limited } = keys;
    const ways = [bearer(limited), get({ 'X-API-Key': limited }), basic(`${limited}:`), basic(`:${limited}`)];
    for (const answer of await Promise.all(ways)) {
      const identity = (await answer.json()) as any;
      assert.equal([answer.status, identity.status, identity.customerId], [200, 'VALID', 'cus']);
      assert.match(answer.headers.get('ratelimit') ?? '', /^"key";r=99\d;t=[01]$/);
      assert.match(answer.headers.get('x-ratelimit-remaining') ?? '', /^99\d$/);
      assert.match(answer.headers.get('x-ratelimit-reset') ?? '', /^\d{10}$/);
    }
    assert.is((await get({ 'X-API-Key': limited, Authorization: `bearer ${limited}` })).status, 200, 'the same twice');
    assert.is(handled, 5);
  });

  test(`${name}: no key, two keys and text that is no key are refused without asking keytally`, async () => {
    const { limited, noScope } = keys;
    proxy.next();
    await refused(get({}), 401, 40110);
    await refused(get({ Authorization: 'Bearer' }), 401, 40110);
    await refused(get({ Authorization: 'Basic !' }), 401, 40110);
    await refused(get({ Authorization: `Digest ${limited}` }), 401, 40110);
    await refused(bearer(limited, { 'X-API-Key': noScope }), 401, 40111);
    await refused(basic(`${limited}:${noScope}`), 401, 40111);
    await refused(bearer('x'.repeat(513)), 401, 40112);
    await refused(bearer(`${limited} ${limited}`), 401, 40112);
    assert.is(proxy.seen.length, 0);
    await refused(bearer('key_nobody'), 401, 40112);
    assert.is(handled, 0);
  });

  test(`${name}: two Authorization headers are two keys, also where Node shows the first alone`, async () => {
    const { limited, noScope } = keys;
    const [first, second] = [`Bearer ${limited}`, `Bearer ${noScope}`];
    const twice = (...authorizations: string[]) => statusOfRaw(apps[name]!.url, authorizations);
    proxy.next();
    assert.is(await twice(first, second), 401);
    assert.is(await twice(second, first), 401);
    assert.equal([handled, proxy.seen.length], [0, 0]);
    // Hono sees both as one text, which is no key.
    if (name !== 'Hono') assert.is(await twice(first, first), 200, 'the same twice');
  });

  test(`${name}: a key is refused by its status, with the same answer as at the endpoint for gateways`, async () => {
    const policy = 'usage=1,scope=documents.read';
    const asked = (key: string) =>
      fetch(`${world.verify!.url}/gateway/plain/${policy}/`, {
        headers: { 'X-Keytally-Token': clients.token, Authorization: `Bearer ${key}` },
      });
    for (const [kind, [status, code]] of Object.entries(refusals)) {
      const key = keys[kind as keyof typeof refusals];
      // The slow key passes now and then. The address is in no allow list.
      const ask = (send: (key: string) => Promise<Response>) =>
        kind === 'slow'
          ? clients.whileRateLimited(
              () => send(key),
              (answer) => answer.status === 429,
            )
          : send(key);
      const [answer, gatewaysAnswer] = [
        await ask((key) => bearer(key, { 'X-Forwarded-For': '198.51.100.1' })),
        await ask(asked),
      ];
      if (kind === 'slow') assert.match(answer.headers.get('ratelimit') ?? '', /^"key";r=0;t=[01]$/);
      assert.equal(await contentOf(answer.clone()), await contentOf(gatewaysAnswer), kind);
      await refused(Promise.resolve(answer), status, code);
      if (kind === 'slow') handled = 0;
      assert.is(handled, 0, kind);
    }
  });

  test(`${name}: an allow list holds, whatever the end client says its address is`, async () => {
    for (const ip of ['203.0.113.9', '2001:db8::1']) {
      assert.is((await bearer(keys.local, { 'X-Forwarded-For': ip })).status, 200, ip);
    }
    for (const ip of ['203.0.114.9', '::1', 'unknown', '203.0.113.9:80', '203.0.113', 'fe80::1%eth0', '']) {
      await refused(bearer(keys.local, { 'X-Forwarded-For': ip }), 403, 40311);
    }
  });

  test(`${name}: each request is debited what its cost function gives, and recorded under its whole path`, async () => {
    const before = await clients.usedCredits();
    proxy.next();
    for (const n of ['2', '0.25', 'free']) {
      assert.is((await get({ 'X-API-Key': clients.good.key }, `?n=${n}`)).status, 200);
    }
    assert.is(await clients.usedCredits(), before + 2.25);
    assert.is((await newestEvent(clients.good.key)).r, 'GET /v1/documents/1');
  });

  test(`${name}: while keytally is unavailable requests are refused`, async () => {
    proxy.fate = 'html';
    const impatient = keytally({ url: proxy.url, token: world.team.token, verifyTimeoutMs: 100 });
    const app = await frameworks[name]!(impatient, { costOf: () => '1', onError() {} }, never);
    const answer = fetch(`${app.url}/v1/`, { headers: { 'X-API-Key': keys.limited } });
    await refused(answer, 503, 50311).finally(() => (proxy.fate = 'pass'));
    await app.stop();
  });
}

test('there is no identity without a guard', () => {
  assert.throws(() => identityOf({}), /no keytally guard/);
});

test.run();

/** The status for a request with several Authorization headers, which `fetch` would join. */
async function statusOfRaw(url: string, authorizations: string[]): Promise<number | undefined> {
  const sent = request(`${url}/v1/documents/1`);
  sent.setHeader('Authorization', authorizations);
  const [answer] = (await once(sent.end(), 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
}

// A refusal without its request id.
async function contentOf(answer: Response) {
  const { error } = (await answer.json()) as { error: { code: number; message: string } };
  const { headers } = answer;
  const names = ['www-authenticate', 'retry-after'];
  return [answer.status, error.code, error.message, ...names.map((name) => headers.get(name))];
}

async function newestEvent(key: string): Promise<{ r: string }> {
  return JSON.parse((await waitingEvents(redis, keyShard(key)!)).at(-1) ?? '');
}

function never(): object {
  throw new Error('the handler was reached');
}

async function refused(sent: Promise<Response>, status: number, code: number): Promise<void> {
  const answer = await sent;
  const text = await answer.text();
  const { error } = JSON.parse(text) as { error: { code: number; message: string; requestId: string } };
  assert.equal([answer.status, error.code, Object.keys(error)], [status, code, ['code', 'message', 'requestId']], text);
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
  assert.is(answer.headers.get('x-request-id'), error.requestId);
  assert.is(answer.headers.get('www-authenticate'), status === 401 ? 'Bearer' : null);
  assert.is(Number(answer.headers.get('retry-after')) > 0, status === 429 || status === 503);
}
