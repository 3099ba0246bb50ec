// How calls of `verify` leave: alone, or gathered in batches.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, type Customers } from '../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { failure } from './helpers/failure.ts';
import { makeProxy, type Proxy } from './helpers/proxy.ts';
import { keytally, type ClientOptions, type Keytally, type KeytallyError } from './index.ts';
import { VERIFY_BATCH_PATH, VERIFY_PATH } from '../../shared/verification/operation.ts';

let world: World;
let customers: Customers;
let proxy: Proxy;
const clients: Record<string, Keytally> = {};

const test = suite('gathered verifications');
test.before(async () => {
  world = await makeWorld(['verify']);
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  customers = makeCustomers(world, workspace.id);
  proxy = await makeProxy(world.verify!.url);
  clients['node:http'] = clientOf(proxy.url);
  clients['fetch'] = clientOf(proxy.url, { fetch: (...args) => fetch(...args) });
});
test.after(async () => {
  proxy?.stop();
  await world?.stop();
});
test.before.each(() => proxy.next());

for (const transport of ['node:http', 'fetch']) {
  test(`calls of one turn leave as one request, and one alone as a single one, by ${transport}`, async () => {
    const { key, meter } = await customers.meteredKey('1000');
    const client = clients[transport]!;
    const answers = await Promise.all(many(64, () => client.verify({ key, billing: { usage: '1' } })));
    assert.equal(paths(), [VERIFY_BATCH_PATH]);
    assert.equal([...new Set(answers.map(({ status }) => status))], ['VALID']);
    assert.is(new Set(answers.map(({ billing }) => billing?.usedCredits)).size, 64, 'each has its own answer');
    proxy.next();
    assert.is((await client.verify({ key, billing: { usage: '1' } })).billing?.usedCredits, '65');
    assert.equal(paths(), [VERIFY_PATH]);
    assert.is((await customers.billing(meter)).usedCredits, '65');
  });

  test(`each call has its own outcome: what is wrong with one is its own error, by ${transport}`, async () => {
    const { key } = await customers.newKey();
    const client = clients[transport]!;
    const wrong: any[] = [{}, { key: 1 }, { key, colour: 'red' }, { key, billing: { usage: 'much' } }];
    const alone = [];
    for (const input of wrong) alone.push(await failure(client.verify(input)));
    proxy.next();
    const [first, ...failures] = await Promise.all([
      client.verify({ key }),
      ...wrong.map((input) => failure(client.verify(input))),
    ]);
    assert.equal(paths(), [VERIFY_BATCH_PATH]);
    assert.is(first.status, 'VALID');
    for (const [i, error] of failures.entries()) {
      assert.equal([error.status, error.code, error.message], [400, 40001, alone[i]!.message]);
      assert.equal(error.details, alone[i]!.details);
      assert.match(error.requestId!, /./);
    }
  });
}

test('more calls than a batch takes, or longer ones, leave as several batches', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const client = clients['node:http']!;
  await Promise.all(many(250, () => client.verify({ key, billing: { usage: '1' } })));
  assert.equal(paths(), Array(3).fill(VERIFY_BATCH_PATH));
  proxy.next();
  // 100 of them are more than 256 KiB.
  const requestedScopes = Array.from({ length: 30 }, (_, i) => ({ representation: 's'.repeat(120) + i }));
  const long = await Promise.all(many(100, () => client.verify({ key, requestedScopes, billing: { usage: '1' } })));
  assert.equal([...new Set(long.map(({ status }) => status))], ['INVALID_SCOPES']);
  assert.ok(paths().length >= 2 && paths().every((path) => path === VERIFY_BATCH_PATH), paths().join());
  assert.is((await customers.billing(meter)).usedCredits, '250');
});

test('calls that come while others are on their way leave together: after these, or after a millisecond', async () => {
  const { server, url, requests } = await holdingServer();
  const client = clientOf(url);
  const calls = [client.verify({ key: 'first' })];
  await eventually('the first is on its way', async () => requests.length === 1);
  const began = performance.now();
  for (let i = 0; i < 20; i++) {
    calls.push(client.verify({ key: `a ${i}` }));
    await new Promise((resolve) => setImmediate(resolve));
  }
  // The server answers nothing, and holds up nobody.
  await eventually('they left too', async () => keysIn(requests).length === 21);
  const tookMs = performance.now() - began;
  assert.ok(requests.length - 1 <= tookMs + 2, `${requests.length - 1} requests in ${tookMs} ms`);
  requests[0]!.answer({ status: 'VALID' });
  for (const { keys, answer } of requests.slice(1)) {
    const status = { status: 'INVALID' };
    answer(keys.length === 1 ? status : { results: keys.map(() => status) });
  }
  assert.equal(
    (await Promise.all(calls)).map(({ status }) => status),
    ['VALID', ...Array<string>(20).fill('INVALID')],
  );
  server.close();
});

test('a batch whose answer is lost is repeated, each call with its own key, and each counts once', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  proxy.next('lose', 'html', 'refuse');
  const answers = await Promise.all(many(20, () => clients['node:http']!.verify({ key, billing: { usage: '1' } })));
  assert.equal([...new Set(answers.map(({ status }) => status))], ['VALID']);
  assert.is((await customers.billing(meter)).usedCredits, '20');
});

test('each call of a batch has its own deadline, and is ended by its own signal', async () => {
  const { key } = await customers.newKey();
  const client = clients['node:http']!;
  proxy.fate = 'hang';
  const controller = new AbortController();
  const reason = new Error('enough');
  const outcomes = [
    failure(client.verify({ key }, { timeoutMs: 60 })),
    client.verify({ key }, { signal: controller.signal }).catch((error: unknown) => error),
    client.verify({ key }),
  ] as const;
  assert.match((await outcomes[0]).message, /in time/);
  controller.abort(reason);
  assert.is(await outcomes[1], reason);
  proxy.fate = 'pass';
  // The request that hangs is given up once nobody waits for it, and the last call asks again.
  assert.is((await outcomes[2]).status, 'VALID');
});

test('one result that is not from keytally fails its batch', async () => {
  const { server, url, requests } = await holdingServer();
  const client = clientOf(url);
  for (const wrong of [
    null,
    {},
    'VALID',
    { status: 1 },
    { error: {} },
    { error: { message: 'no' } },
    { error: { code: 404 } },
  ]) {
    const calls = Promise.allSettled(many(2, () => client.verify({ key: 'key_a' })));
    await eventually('it is asked', async () => requests.length === 1);
    requests.pop()!.answer({ results: [{ status: 'VALID' }, wrong] });
    for (const outcome of await calls) {
      assert.is(outcome.status, 'rejected');
      const { message, code } = (outcome as PromiseRejectedResult).reason as KeytallyError;
      assert.equal([message, code], ['the answer to a batch is not from keytally', 0], JSON.stringify(wrong));
    }
  }
  server.close();
  server.closeAllConnections();
});

test('a server that knows no batches is asked with single calls', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const old = createServer(async (request, response) => {
    if (request.url === VERIFY_BATCH_PATH) return response.writeHead(404).end('{"error":{"code":40401,"message":""}}');
    const answer = await fetch(world.verify!.url + request.url, {
      method: 'POST',
      headers: { ...(request.headers as Record<string, string>), connection: 'close' },
      body: await buffer(request),
    });
    return response.writeHead(answer.status, { 'Content-Type': 'application/json' }).end(await answer.text());
  });
  const url = await listen(old);
  let asked = 0;
  old.on('request', ({ url }: IncomingMessage) => (asked += url === VERIFY_BATCH_PATH ? 1 : 0));
  const client = clientOf(url);
  for (let round = 1; round <= 2; round++) {
    const answers = await Promise.all(many(10, () => client.verify({ key, billing: { usage: '1' } })));
    assert.equal([...new Set(answers.map(({ status }) => status))], ['VALID']);
  }
  assert.is(asked, 1, 'once in a minute');
  assert.is((await customers.billing(meter)).usedCredits, '20');
  old.close();
  old.closeAllConnections();
});

test('verifyBatch gives each verification a key of its own, and can be repeated', async () => {
  const { key, meter } = await customers.meteredKey('10');
  proxy.next('lose');
  const one = { key, billing: { usage: '1' } };
  const { results } = await clients['node:http']!.verifyBatch({ verifications: [one, one, { key: '' }] });
  assert.equal(
    results.map((result) => ('error' in result ? result.error.code : result.status)),
    ['VALID', 'VALID', 'INVALID'],
  );
  assert.equal(paths(), [VERIFY_BATCH_PATH, VERIFY_BATCH_PATH]);
  assert.is((await customers.billing(meter)).usedCredits, '2');
});

test.run();

function clientOf(url: string, options: Partial<ClientOptions> = {}): Keytally {
  return keytally({ url, token: world.team.token, verifyTimeoutMs: 20_000, ...options });
}

function paths(): (string | undefined)[] {
  return proxy.seen.map(({ url }) => url);
}

function many<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}

type Held = { keys: string[]; answer(body: object): void };

/** A server that answers nothing until it is told to. */
async function holdingServer() {
  const requests: Held[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    const body = JSON.parse((await buffer(request)).toString()) as { key: string; verifications?: { key: string }[] };
    const keys = (body.verifications ?? [body]).map(({ key }) => key);
    const headers = { 'Content-Type': 'application/json' };
    requests.push({ keys, answer: (body) => void response.writeHead(200, headers).end(JSON.stringify(body)) });
  });
  return { server, url: await listen(server), requests };
}

function keysIn(requests: readonly Held[]): string[] {
  return requests.flatMap(({ keys }) => keys);
}

async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
