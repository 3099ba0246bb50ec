import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { joinWorld, makeCustomers, newWorkspace } from '../../tests/helpers/world.ts';
import { frameworks } from './helpers/frameworks.ts';
import { listen, type App } from '../../tests/helpers/listen.ts';
import { makeProxy } from './helpers/proxy.ts';
import { capture, captureAtEnd, identityOf, keytally, nodeGuard } from './index.ts';

const errors: Error[] = [];
const options = { cost: '10', hold: { expiresIn: 600 }, onError: (error: Error) => void errors.push(error) };

const world = await joinWorld();
const proxy = await makeProxy(world.verify.url);
const client = keytally({ url: world.api.url, verifyUrl: proxy.url, token: world.team.token, verifyTimeoutMs: 20_000 });
const customers = makeCustomers(world, await newWorkspace(world));
test.before.each(() => {
  errors.length = 0;
  proxy.fate = 'pass';
  proxy.next();
});

/** The handler of `/slow/…` goes on once the gate opens. */
function makeGate() {
  const [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  return { reached: reached.promise, reach: () => (reached.resolve(), opened.promise), open: () => opened.resolve() };
}
let gate = makeGate();

async function handle(path: string, request: object): Promise<object> {
  if (path.includes('/slow/')) await gate.reach();
  if (path.endsWith('/unsendable')) assert.instance(await caught(capture(request, 3n as unknown as string)), TypeError);
  if (path.endsWith('/capture')) await capture(request, '3');
  if (path.endsWith('/at-end')) captureAtEnd(request, () => '4');
  return {};
}
function caught(made: Promise<unknown>): Promise<unknown> {
  return made.catch((error: unknown) => error);
}

for (const name of ['Koa', 'Express', 'Fastify']) {
  test(`${name}: a handler whose end client left still captures, and else its hold is released`, async () => {
    const { key, meter } = await customers.meteredKey('1000');
    const app = await start(name);
    // The path, what verify is asked after the verification, and what is used.
    for (const [path, paths, used] of [
      ['/slow/capture', 'capture', 3],
      ['/slow/at-end', 'capture', 7],
      ['/slow/forgotten', 'release', 7],
    ] as const) {
      proxy.next();
      gate = makeGate();
      await leave(app, path, key, gate.reached);
      assert.is(asked(), 'verify', 'the handler still works');
      gate.open();
      await client.drain();
      assert.equal([asked(), await amounts(meter), errors], [`verify ${paths}`, `${used} used 0 held`, []], path);
    }
  });
}

test('a refused capture, and one that cannot be sent, leave the hold to be released', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const app = await start('Koa');
  await (await fetch(`${app.url}/v1/unsendable`, { headers: { 'X-API-Key': key } })).text();
  await client.drain();
  assert.equal([asked(), await amounts(meter)], ['verify release', '0 used 0 held']);
});

for (const name of ['Koa', 'Express', 'Fastify']) {
  test(`${name}: of an end client that leaves while its key is verified, nothing stays held or is captured`, async () => {
    const { key, meter } = await customers.meteredKey('100');
    const app = await start(name);
    proxy.fate = 'hold';
    const verified = once(proxy.server, 'request');
    await leave(app, '/capture', key, verified);
    const released = once(proxy.server, 'request');
    proxy.release();
    await released;
    await client.drain();
    assert.equal([asked(), await amounts(meter)], ['verify release', '0 used 0 held']);
  });
}

test('drain waits for what is captured at the end, also of an answer that was cut off', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const app = await serve((guard) => (request, response) => {
    void guard(request, response, () => {
      captureAtEnd(request, () => '4');
      response.write('begun');
    });
  });
  proxy.next('pass', 'hold');
  const leaving = new AbortController();
  const { body } = await fetch(app.url, { headers: { 'X-API-Key': key }, signal: leaving.signal });
  await body!.getReader().read();
  const captured = once(proxy.server, 'request');
  leaving.abort();
  await captured;
  await drainsOnlyOnceReleased();
  assert.is(await amounts(meter), '4 used 0 held');
});

test('drain waits for a capture that is made after the answer, and for the release where it is refused', async () => {
  const { key, meter } = await customers.meteredKey('100');
  for (const [usage, before] of [
    ['3', '0 used 10 held'],
    ['much', '3 used 10 held'],
  ] as const) {
    const app = await serve((guard) => (request, response) => {
      void guard(request, response, () => {
        response.end('done');
        void caught(capture(request, usage));
      });
    });
    proxy.next('pass', 'hold');
    const captured = asking(2);
    await (await fetch(app.url, { headers: { 'X-API-Key': key } })).text();
    await captured;
    assert.is(await amounts(meter), before);
    await drainsOnlyOnceReleased();
    assert.is(await amounts(meter), '3 used 0 held');
  }
});

test('what was answered while the key was verified stays, and nothing stays held', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const decided: Promise<void>[] = [];
  const app = await serve((guard) => (request, response) => {
    decided.push(guard(request, response, () => assert.unreachable('it was answered')));
    response.writeHead(503).end('too late');
  });
  for (const text of [key, 'key_nobody']) {
    const answer = await fetch(app.url, { headers: { 'X-API-Key': text } });
    assert.equal([answer.status, await answer.text()], [503, 'too late']);
  }
  await Promise.all(decided);
  await client.drain();
  assert.is(await amounts(meter), '0 used 0 held');
  assert.match(asked(), 'release');
});

test('a handler without a guard, or without one that holds, is told so', async () => {
  assert.throws(() => identityOf({}), /no keytally guard/);
  assert.throws(() => captureAtEnd({}, () => '1'), /captureAtEnd\(\): no keytally guard with a hold/);
  assert.match(String(await caught(capture({}, '1'))), /capture\(\): no keytally guard with a hold/);
});

async function start(name: string): Promise<App> {
  const { cost, ...others } = options;
  return listen(createServer(await frameworks[name]!(client, { ...others, costOf: () => cost }, handle)));
}

type Guard = ReturnType<typeof nodeGuard<IncomingMessage>>;
function serve(make: (guard: Guard) => RequestListener): Promise<App> {
  return listen(createServer(make(nodeGuard<IncomingMessage>(client, options))));
}

async function leave(app: App, path: string, key: string, when: Promise<unknown>): Promise<void> {
  const over = overOf(app);
  const leaving = new AbortController();
  const left = fetch(`${app.url}/v1${path}`, { headers: { 'X-API-Key': key }, signal: leaving.signal }).catch(() => {});
  await when;
  leaving.abort();
  await Promise.all([left, over]);
}

/** Once the next request is answered, or its end client has left. */
function overOf({ server }: App): Promise<unknown> {
  return once(server, 'request').then(([, response]) => once(response as ServerResponse, 'close'));
}

/** Once verify is asked so many times more. */
async function asking(times: number): Promise<void> {
  for (let i = 0; i < times; i++) await once(proxy.server, 'request');
}

function asked(): string {
  return proxy.seen.map(({ url }) => url!.split('/').at(-1)).join(' ');
}

async function drainsOnlyOnceReleased(): Promise<void> {
  let isDrained = false;
  const drained = client.drain().then(() => (isDrained = true));
  // A drain that waits for nothing takes a turn of timers.
  await client.ready();
  assert.is(isDrained, false);
  proxy.release();
  await drained;
}

async function amounts(meter: string): Promise<string> {
  const { usedCredits, heldCredits } = await customers.billing(meter);
  return `${usedCredits} used ${heldCredits} held`;
}
