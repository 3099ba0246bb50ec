import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeEndClients, refusals, type EndClients } from '../../tests/helpers/end-clients.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';
import type { HonoContext, NodeRequest } from './frameworks.ts';
import type { Cost, RequestedScopes } from './guard.ts';
import { fastifyGuard, honoGuard, identityOf, keytally, koaGuard, nodeGuard, type Keytally } from './index.ts';
import { makeProxy, type Proxy } from './helpers/proxy.ts';

type App = { url: string; stop(): unknown };
type Settings = { costOf: (url: string) => string | Cost; scopes?: RequestedScopes };
type Framework = (client: Keytally, settings: Settings, tell: (identity: object) => object) => Promise<App>;

// Each with an address of the client that a test can say: as behind a proxy that they were told to trust.
const frameworks: Record<string, Framework> = {
  Koa(client, { costOf, ...options }, tell) {
    const app = new Koa({ proxy: true });
    app.silent = true;
    app.use(koaGuard(client, { ...options, cost: (ctx) => costOf(ctx.url) }));
    app.use((ctx) => {
      ctx.body = tell(identityOf(ctx));
    });
    return listen(createServer(app.callback()));
  },
  Express(client, { costOf, ...options }, tell) {
    const app = express().set('trust proxy', true).set('env', 'test');
    // Behind a router of its own, which sees a part of the path.
    const router = express.Router();
    router.use(nodeGuard(client, { ...options, cost: (request) => costOf(request.url) }));
    router.get('/*path', (request, response) => void response.json(tell(identityOf(request))));
    return listen(createServer(app.use('/v1', router)));
  },
  async Fastify(client, { costOf, ...options }, tell) {
    const app = fastify({ trustProxy: true });
    app.addHook('onRequest', fastifyGuard(client, { ...options, cost: (request) => costOf(request.url) }));
    app.get('/*', async (request) => tell(identityOf(request)));
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), stop: () => app.close() };
  },
  Hono(client, { costOf, ...options }, tell) {
    const app = new Hono();
    const ip = (c: HonoContext) => c.req.header('x-forwarded-for');
    app.use(honoGuard(client, { ...options, ip, cost: async (c) => costOf(c.req.url) }));
    app.get('/*', (c) => c.json(tell(identityOf(c))));
    return listen(createServer(bridge((request) => app.fetch(request))));
  },
  'node:http'(client, { costOf, ...options }, tell) {
    const ip = (request: NodeRequest) => request.headers['x-forwarded-for'] as string;
    const guard = nodeGuard(client, { ...options, ip, cost: (request) => costOf(request.url!) });
    return listen(
      createServer((request, response) =>
        guard(request, response, (error) => {
          response.statusCode = error ? 500 : 200;
          response.setHeader('Content-Type', 'application/json');
          response.end(JSON.stringify(error ? {} : tell(identityOf(request))));
        }),
      ),
    );
  },
};

let world: World;
let proxy: Proxy;
let client: Keytally;
let clients: EndClients;
let keys: EndClients['keys'] & { limited: string };
const apps: Record<string, App> = {};
let handled = 0;

const test = suite('the guards');
test.before(async () => {
  // A busy machine is given time.
  world = await makeWorld(['verify'], { VERIFY_DEADLINE_MS: '2000' });
  proxy = await makeProxy(world.verify!.url);
  client = keytally({ url: proxy.url, token: world.team.token, verifyTimeoutMs: 20_000 });
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

  test(`${name}: a good key passes in each of the three ways, and the handler knows whose it is`, async () => {
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

  test(`${name}: no key, two keys and what is none are refused, the last two without asking`, async () => {
    const { limited, noScope } = keys;
    proxy.next();
    await refused(get({}), 401, 40110);
    await refused(get({ Authorization: 'Bearer' }), 401, 40110);
    await refused(get({ Authorization: 'Basic !' }), 401, 40110);
    await refused(get({ Authorization: `Digest ${limited}` }), 401, 40110);
    await refused(bearer(limited, { 'X-API-Key': noScope }), 401, 40111);
    await refused(basic(`${limited}:${noScope}`), 401, 40111);
    await refused(bearer('x'.repeat(300)), 401, 40112);
    await refused(bearer(`${limited} ${limited}`), 401, 40112);
    assert.is(proxy.seen.length, 0);
    await refused(bearer('key_nobody'), 401, 40112);
    assert.is(handled, 0);
  });

  test(`${name}: a key that may not is refused by its status, in the words of the endpoint for gateways`, async () => {
    const policy = 'usage=1,scope=documents.read';
    const asked = (key: string) =>
      fetch(`${world.verify!.url}/gateway/plain/${policy}/`, {
        headers: { 'X-Keytally-Token': clients.token, Authorization: `Bearer ${key}` },
      });
    for (const [kind, [status, code]] of Object.entries(refusals)) {
      const key = keys[kind as keyof typeof refusals];
      // Where it is slow it passes now and then; an address that no list has is sent along.
      const ask = (send: (key: string) => Promise<Response>) =>
        kind === 'slow'
          ? clients.whileRateLimited(
              () => send(key),
              (answer) => answer.status === 429,
            )
          : send(key);
      const [answer, theirs] = [
        await ask((key) => bearer(key, { 'X-Forwarded-For': '198.51.100.1' })),
        await ask(asked),
      ];
      if (kind === 'slow') assert.match(answer.headers.get('ratelimit') ?? '', /^"key";r=0;t=[01]$/);
      assert.equal(await told(answer.clone()), await told(theirs), kind);
      await refused(Promise.resolve(answer), status, code);
      if (kind === 'slow') handled = 0;
      assert.is(handled, 0, kind);
    }
  });

  test(`${name}: an allow list holds, whatever the address is said to be`, async () => {
    for (const ip of ['203.0.113.9', '2001:db8::1']) {
      assert.is((await bearer(keys.local, { 'X-Forwarded-For': ip })).status, 200, ip);
    }
    for (const ip of ['203.0.114.9', '::1', 'unknown', '203.0.113.9:80', '203.0.113', 'fe80::1%eth0', '']) {
      await refused(bearer(keys.local, { 'X-Forwarded-For': ip }), 403, 40311);
    }
  });

  test(`${name}: each request is debited what its cost function says, under the route of its path`, async () => {
    const before = await clients.usedCredits();
    proxy.next();
    for (const n of ['2', '0.25', 'free']) {
      assert.is((await get({ 'X-API-Key': clients.good.key }, `?n=${n}`)).status, 200);
    }
    assert.is(await clients.usedCredits(), before + 2.25);
    // A wrong cost is this program's mistake, and nobody passes by it.
    handled = 0;
    assert.is((await get({ 'X-API-Key': clients.good.key }, '?n=-1')).status, 500);
    assert.is(handled, 0);
  });

  test(`${name}: while keytally is away requests are refused`, async () => {
    proxy.fate = 'html';
    const impatient = keytally({ url: proxy.url, token: world.team.token, verifyTimeoutMs: 100 });
    const app = await frameworks[name]!(impatient, { costOf: () => '1' }, never);
    const answer = fetch(`${app.url}/v1/`, { headers: { 'X-API-Key': keys.limited } });
    await refused(answer, 503, 50311).finally(() => (proxy.fate = 'pass'));
    await app.stop();
  });
}

test('there is no identity where no guard was', () => {
  assert.throws(() => identityOf({}), /no keytally guard/);
});

test.run();

// What a refusal says, but for the request that it is about.
async function told(answer: Response) {
  const { error } = (await answer.json()) as { error: { code: number; message: string } };
  const { headers } = answer;
  const names = ['www-authenticate', 'retry-after'];
  return [answer.status, error.code, error.message, ...names.map((name) => headers.get(name))];
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

async function listen(server: Server): Promise<App> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

// What an edge runtime is to a program: a request in, a response out.
function bridge(handle: (request: Request) => Response | Promise<Response>): RequestListener {
  return async (request, response) => {
    const { host: _, ...headers } = request.headers as Record<string, string>;
    const answer = await handle(new Request(`http://edge${request.url}`, { method: request.method!, headers }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  };
}
