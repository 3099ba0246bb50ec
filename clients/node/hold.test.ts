import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { makeProxy, type Proxy } from './helpers/proxy.ts';
import {
  capture,
  captureAtEnd,
  fastifyGuard,
  honoGuard,
  keytally,
  koaGuard,
  KeytallyError,
  nodeGuard,
  type Keytally,
} from './index.ts';

// Guards that hold, and the client's operations on holds.

let world: World;
let proxy: Proxy;
let client: Keytally;
let customers: Customers;
const servers: Server[] = [];

const test = suite('holds by the client');
test.before(async () => {
  world = await makeWorld(['verify']);
  proxy = await makeProxy(world.verify!.url);
  client = keytally({ url: world.api.url, verifyUrl: proxy.url, token: world.team.token, verifyTimeoutMs: 20_000 });
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(async () => {
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
  proxy?.stop();
  await world?.stop();
});

test('verify holds, and holds are captured, released, extended and listed by methods with types', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const hold = async () => {
    const { hold } = await client.verify({
      key,
      billing: { usage: '10', hold: { expiresIn: 600, onExpiry: 'charge' } },
    });
    return hold!.id;
  };
  const [first, second] = [await hold(), await hold()];
  const { id } = await customers.billing(meter);
  assert.equal(
    (await client.holds.list({ bid: id })).holds.map((one) => one.id),
    [first, second],
  );
  assert.is((await client.holds.extend({ holdId: second, expiresIn: 900 })).hold.credits, '10');
  const { capture: captured, billing } = await client.holds.capture({ holdId: first, usage: '2.5' });
  assert.equal([captured.usage, billing.heldCredits], ['2.5', '10']);
  assert.is((await client.holds.release({ holdId: second })).billing.availableCredits, '97.5');
  const error = await client.holds.capture({ holdId: second, usage: '1' }).catch((thrown: unknown) => thrown);
  assert.is((error as KeytallyError).code, 40951);
});

const errors: Error[] = [];
const options = { cost: '10', hold: { expiresIn: 600 }, onError: (error: Error) => void errors.push(error) };
const gate = { reached: false, open() {} };
async function finish(path: string, request: object): Promise<void> {
  if (path.startsWith('/slow/')) {
    await new Promise<void>((resolve) => {
      gate.open = resolve;
      gate.reached = true;
    });
  }
  const refused = async () => {
    const error = await capture(request, 'much').catch((thrown: unknown) => thrown);
    assert.is((error as KeytallyError).code, 40001);
  };
  if (path.startsWith('/refused')) await refused();
  if (path === '/unsendable') {
    const error = await capture(request, 3n as unknown as string).catch((thrown: unknown) => thrown);
    assert.instance(error, TypeError);
  }
  if (path.endsWith('/capture')) await capture(request, '3');
  if (path === '/captured-and-refused') {
    await capture(request, '3');
    await refused();
  }
  if (path.endsWith('/at-end')) captureAtEnd(request, () => '4');
  if (path === '/nothing-at-end') captureAtEnd(request, () => '0.000000');
  if (path === '/fail-at-end') captureAtEnd(request, () => 'much');
  if (path === '/empty-at-end') captureAtEnd(request, () => '');
}
async function* slowly() {
  for (let i = 0; ; i++) {
    yield `${i}\n`;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Each answers `/capture` after a capture, `/forgotten` without one, fails at `/fail`, and at `/stream` never ends.
const frameworks: Record<string, () => Promise<string>> = {
  Koa() {
    const app = new Koa();
    app.silent = true;
    app.use(koaGuard(client, options));
    app.use(async (ctx) => {
      if (ctx.path === '/fail') throw new Error('failed');
      await finish(ctx.path, ctx);
      ctx.body = ctx.path.startsWith('/stream') ? ReadableStream.from(slowly()) : 'done';
    });
    return listen(app.callback());
  },
  Express() {
    const app = express().set('env', 'test');
    app.use(nodeGuard(client, options));
    app.get('/*path', async (request, response) => {
      if (request.path === '/fail') throw new Error('failed');
      await finish(request.path, request);
      if (!request.path.startsWith('/stream')) return void response.end('done');
      for await (const text of slowly()) if (!response.write(text) || response.closed) break;
      return void response.end();
    });
    return listen(app);
  },
  async Fastify() {
    const app = fastify();
    app.addHook('onRequest', fastifyGuard(client, options));
    app.get('/*', async (request, reply) => {
      if (request.url === '/fail') throw new Error('failed');
      await finish(request.url, request);
      return request.url.startsWith('/stream') ? reply.send(ReadableStream.from(slowly())) : 'done';
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    servers.push(app.server);
    return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  },
  Hono() {
    const app = new Hono();
    app.use(honoGuard(client, options));
    app.get('/*', async (c) => {
      if (c.req.path === '/fail') throw new Error('failed');
      await finish(c.req.path, c);
      const stream = ReadableStream.from(slowly()).pipeThrough(new TextEncoderStream());
      return c.req.path.startsWith('/stream') ? new Response(stream) : c.text('done');
    });
    return listen((request, response) => void bridge(app, request, response));
  },
};

for (const [name, start] of Object.entries(frameworks)) {
  test(`${name}: a handler captures what the request did cost; one that ends without it, or whose stream does, releases`, async () => {
    const { key, meter } = await customers.meteredKey('100');
    const url = await start();
    const get = (path: string, more: object = {}) => fetch(url + path, { headers: { 'X-API-Key': key }, ...more });
    const amounts = async () => {
      const { usedCredits, heldCredits } = await customers.billing(meter);
      return `${usedCredits} used ${heldCredits} held`;
    };
    // The amounts are the same where nothing was held.
    const released = async () => {
      await asked('verify', 'release');
      await eventually('it was released', async () => (await amounts()) === '3 used 0 held');
      proxy.next();
    };
    assert.is(await (await get('/capture')).text(), 'done');
    assert.is(await amounts(), '3 used 0 held');
    proxy.next();
    assert.is(await (await get('/forgotten')).text(), 'done');
    await released();
    assert.is((await get('/forgotten', { method: 'HEAD' })).status, 200);
    await released();
    assert.is((await get('/fail')).status, 500);
    await released();
    const leaving = new AbortController();
    const { body } = await get('/stream', { signal: leaving.signal });
    await body!.getReader().read();
    assert.is(await amounts(), '3 used 10 held');
    leaving.abort();
    await released();
  });
}

for (const [name, start] of Object.entries(frameworks)) {
  test(`${name}: what is captured at the end is captured when the answer ends, or the end client goes away`, async () => {
    const { key, meter } = await customers.meteredKey('100');
    const url = await start();
    const get = (path: string, more: object = {}) => fetch(url + path, { headers: { 'X-API-Key': key }, ...more });
    const become = (expected: string) =>
      eventually(expected, async () => {
        const { usedCredits, heldCredits } = await customers.billing(meter);
        return `${usedCredits} used ${heldCredits} held` === expected;
      });
    assert.is(await (await get('/at-end')).text(), 'done');
    await become('4 used 0 held');
    proxy.next();
    assert.is(await (await get('/nothing-at-end')).text(), 'done');
    await asked('verify', 'release');
    await become('4 used 0 held');
    const leaving = new AbortController();
    const { body } = await get('/stream/at-end', { signal: leaving.signal });
    await body!.getReader().read();
    await become('4 used 10 held');
    leaving.abort();
    await become('8 used 0 held');
    for (const [path, expected] of [
      ['/fail-at-end', '8 used 10 held'],
      ['/empty-at-end', '8 used 20 held'],
    ] as const) {
      errors.length = 0;
      assert.is(await (await get(path)).text(), 'done');
      await eventually('onError hears of it', async () => errors.length === 1);
      assert.match(errors[0]!.message, /usage/);
      await become(expected);
    }
  });
}

for (const name of ['Koa', 'Express', 'Fastify']) {
  test(`${name}: of an end client that leaves while its key is verified, nothing stays held or is captured`, async () => {
    const { key, meter } = await customers.meteredKey('100');
    const url = await frameworks[name]!();
    const server = servers.at(-1)!;
    proxy.next();
    proxy.fate = 'hold';
    const leaving = new AbortController();
    const left = fetch(`${url}/capture`, { headers: { 'X-API-Key': key }, signal: leaving.signal }).catch(() => {});
    await eventually('it is verified', async () => proxy.seen.length > 0);
    leaving.abort();
    await left;
    const connections = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    await eventually('it has left', async () => (await connections()) === 0);
    proxy.release();
    await eventually('it was released', async () => proxy.seen.some((one) => one.url!.endsWith('/usage/release')));
    await eventually('nothing is held', async () => (await customers.billing(meter)).heldCredits === '0');
    assert.is((await customers.billing(meter)).usedCredits, '0');
  });
}

for (const name of ['Koa', 'Express', 'Fastify']) {
  test(`${name}: a handler whose end client went away still captures, and what it does not capture is released at its end`, async () => {
    const { key, meter } = await customers.meteredKey('100');
    const url = await frameworks[name]!();
    const server = servers.at(-1)!;
    const connections = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    const amounts = async () => {
      const { usedCredits, heldCredits } = await customers.billing(meter);
      return `${usedCredits} used ${heldCredits} held`;
    };
    for (const [path, before, expected] of [
      ['/slow/capture', '0 used 10 held', '3 used 0 held'],
      ['/slow/at-end', '3 used 10 held', '7 used 0 held'],
      ['/slow/forgotten', '7 used 10 held', '7 used 0 held'],
    ] as const) {
      gate.reached = false;
      proxy.next();
      const leaving = new AbortController();
      const left = fetch(url + path, { headers: { 'X-API-Key': key }, signal: leaving.signal }).catch(() => {});
      await eventually('the handler works', async () => gate.reached);
      leaving.abort();
      await left;
      await eventually('it has left', async () => (await connections()) === 0);
      assert.is(await amounts(), before);
      assert.is(proxy.seen.length, 1, 'nothing but the verification');
      gate.open();
      await eventually(`${path}: ${expected}`, async () => (await amounts()) === expected);
    }
  });
}

test('a capture that keytally refuses, or that cannot be sent, settles nothing: the handler may try again, and else it is released', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const url = await frameworks['Koa']!();
  for (const [path, expected] of [
    ['/unsendable', '0 used 0 held'],
    ['/refused', '0 used 0 held'],
    ['/refused/capture', '3 used 0 held'],
  ] as const) {
    assert.is(await (await fetch(url + path, { headers: { 'X-API-Key': key } })).text(), 'done');
    await eventually(expected, async () => {
      const { usedCredits, heldCredits } = await customers.billing(meter);
      return `${usedCredits} used ${heldCredits} held` === expected;
    });
  }
});

test('a second capture that is refused leaves the first one as it is', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const url = await frameworks['Koa']!();
  errors.length = 0;
  proxy.next();
  assert.is(await (await fetch(`${url}/captured-and-refused`, { headers: { 'X-API-Key': key } })).text(), 'done');
  await client.drain();
  assert.equal(errors, []);
  await asked('verify', 'capture', 'capture');
  const { usedCredits, heldCredits } = await customers.billing(meter);
  assert.equal([usedCredits, heldCredits], ['3', '0']);
});

test('drain waits for what is captured at the end, also of an answer that was cut off as the last', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const draining = keytally({ url: proxy.url, token: world.team.token, timeoutMs: 60_000, verifyTimeoutMs: 20_000 });
  const guard = nodeGuard<IncomingMessage>(draining, options);
  const url = await listen((request, response) => {
    void guard(request, response, () => {
      captureAtEnd(request, () => '4');
      response.write('begun');
    });
  });
  const leaving = new AbortController();
  const { body } = await fetch(url, { headers: { 'X-API-Key': key }, signal: leaving.signal });
  await body!.getReader().read();
  proxy.next();
  proxy.fate = 'hold';
  let isDrained = false;
  const drained = new Promise<void>((resolve) => {
    servers.at(-1)!.close(() => resolve(draining.drain().finally(() => (isDrained = true))));
  });
  leaving.abort();
  await eventually('it is captured', async () => proxy.seen.length === 1);
  assert.is(isDrained, false);
  proxy.release();
  await drained;
  const { usedCredits, heldCredits } = await customers.billing(meter);
  assert.equal([usedCredits, heldCredits], ['4', '0']);
});

test('drain waits for a capture that is made after the answer, and for the release where it is refused', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const amounts = async () => {
    const { usedCredits, heldCredits } = await customers.billing(meter);
    return `${usedCredits} used ${heldCredits} held`;
  };
  const draining = keytally({ url: proxy.url, token: world.team.token, timeoutMs: 60_000, verifyTimeoutMs: 20_000 });
  const guard = nodeGuard<IncomingMessage>(draining, options);
  for (const [usage, before, after] of [
    ['3', '0 used 10 held', '3 used 0 held'],
    ['much', '3 used 10 held', '3 used 0 held'],
  ] as const) {
    const url = await listen((request, response) => {
      void guard(request, response, () => {
        response.end('done');
        void capture(request, usage).catch(() => {});
      });
    });
    proxy.next('pass', 'hold');
    assert.is(await (await fetch(url, { headers: { 'X-API-Key': key } })).text(), 'done');
    await asked('verify', 'capture');
    let isDrained = false;
    const drained = draining.drain().finally(() => (isDrained = true));
    assert.is(await amounts(), before);
    assert.is(isDrained, false);
    proxy.release();
    await drained;
    assert.is(await amounts(), after);
  }
});

test('what was answered while the key was verified stays, and nothing stays held', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const guard = nodeGuard<IncomingMessage>(client, options);
  const decided: Promise<void>[] = [];
  const url = await listen((request, response) => {
    decided.push(guard(request, response, () => assert.unreachable('it was answered')));
    response.writeHead(503).end('too late');
  });
  proxy.next();
  for (const text of [key, 'key_nobody']) {
    const answer = await fetch(url, { headers: { 'X-API-Key': text } });
    assert.equal([answer.status, await answer.text()], [503, 'too late']);
  }
  await Promise.all(decided);
  await eventually('it was released', async () => proxy.seen.some((one) => one.url!.endsWith('/usage/release')));
  await eventually('nothing is held', async () => (await customers.billing(meter)).heldCredits === '0');
});

test('a key without a billing record holds nothing, and its capture does nothing', async () => {
  const { key } = await customers.newKey();
  const answer = await fetch(`${await frameworks['Koa']!()}/capture`, { headers: { 'X-API-Key': key } });
  assert.is(await answer.text(), 'done');
});

test('a handler without a guard that holds is told so', async () => {
  assert.throws(() => captureAtEnd({}, () => '1'), /captureAtEnd\(\): no keytally guard with a hold/);
  const error = await capture({}, '1').catch((thrown: unknown) => thrown);
  assert.match((error as Error).message, /capture\(\): no keytally guard with a hold/);
});

test('a wrong hold, and one beside open, end the program at its start', () => {
  assert.throws(() => koaGuard(client, { hold: { expiresIn: 0 } }), /hold\.expiresIn is 0/);
  const open = { size: 0, away: false, keep: () => true, flush: async () => 0 };
  assert.throws(() => koaGuard(client, { ...options, open }), /open/);
});

test.run();

/** Waits until verify was asked for this since the last `proxy.next`, and for nothing else. */
async function asked(...what: string[]): Promise<void> {
  const paths = () => proxy.seen.map(({ url }) => url!.split('/').at(-1)).join();
  await eventually(`${what.join()} were asked for`, async () => paths() === what.join());
}

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Hands a request of node:http to Hono, and its answer back. */
async function bridge(app: Hono, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const headers = Object.entries(request.headers).flatMap(([name, value]): [string, string][] =>
    typeof value === 'string' ? [[name, value]] : [],
  );
  const answer = await app.fetch(new Request(`http://localhost${request.url}`, { method: request.method!, headers }));
  response.writeHead(answer.status);
  const reader = answer.body?.getReader();
  response.once('close', () => void reader?.cancel().catch(() => {}));
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) break;
    response.write(value);
  }
  response.end();
}
