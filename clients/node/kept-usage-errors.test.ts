// What a guard with `open`, and its kept usage, make of errors: keytally's own, and those of something before it.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  identityOf,
  keepUsage,
  keytally,
  nodeGuard,
  type ClientOptions,
  type Keytally,
  type KeytallyError,
  type KeptUsage,
} from './index.ts';
import { sendKept, type KeptCall } from './kept-usage.ts';

// What verify answers about each key. Waiting for `Retry-After` would take too long, so nothing is repeated.
const headers = { 'Retry-After': '60' };
const answers: Record<string, [status: number, body: string]> = {
  good: [200, '{"status":"VALID"}'],
  wrong: [200, '{"status":"INVALID"}'],
  'used-up': [200, '{"status":"USAGE_LIMITED"}'],
  'too-fast': [200, '{"status":"RATE_LIMITED"}'],
  untrusted: [401, error(40102)],
  guessed: [429, error(42901)],
  'over-quota': [429, error(42920)],
  closed: [503, error(50305)],
  empty: [503, error(50301)],
  full: [503, error(50306)],
  overloaded: [503, error(50308)],
  proxied: [429, 'slow down'],
};
type Asked = { key: string };
const asked: string[] = [];
let isBack = false;
const server = createServer(async (request, response) => {
  if (request.method === 'GET') return void response.end('{}');
  const body = (await json(request)) as Asked & { verifications?: Asked[] };
  const { key } = body.verifications?.[0] ?? body;
  asked.push(key);
  const [status, text] = isBack ? answers['good']! : answers[key]!;
  if (!body.verifications || status === 429) return void response.writeHead(status, headers).end(text);
  return void response.end(`{"results":[${body.verifications.map(() => text).join()}]}`);
});

const lost: unknown[] = [];
const errors: string[] = [];
let client: Keytally;
let kept: KeptUsage;

const test = suite('kept usage and errors');
test.before(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  client = connect();
});
test.before.each(() => {
  lost.length = errors.length = asked.length = 0;
  isBack = false;
  kept = keepUsage(client, { onLost: (_, why) => void lost.push(why), pauseMs: 60_000 });
});
test.after(() => {
  server.close();
  server.closeAllConnections();
});

test('a wrong access token that was tried too often is a 500, and lets nobody pass', async () => {
  assert.equal(await get('guessed'), [500, undefined]);
  assert.equal([kept.size, kept.away, errors.length], [0, false, 1]);
  assert.match(errors[0]!, 'keytally answered 42901');
});

test("the team's own quota is a 503, and lets nobody pass: wrong keys can use it up", async () => {
  assert.equal(await get('over-quota'), [503, undefined]);
  assert.equal([kept.size, kept.away, errors.length], [0, false, 1]);
  assert.match(errors[0]!, 'keytally answered 42920');
});

test("the team's quota lets nobody pass where later attempts got no answer of keytally's either", async () => {
  const quota = [new Response(error(42920), { status: 429, headers: { 'Retry-After': '0' } })];
  const proxied = async (...request: Parameters<typeof fetch>) => quota.shift() ?? fetch(...request);
  assert.equal(await get('proxied', connect({ fetch: proxied })), [503, undefined]);
  assert.equal([quota.length, asked, kept.size, kept.away], [0, ['proxied'], 0, false]);
  assert.match(errors[0]!, 'keytally answered 42920');
});

test('a 429 of something before keytally is an outage', async () => {
  assert.equal(await get('proxied'), [200, 'UNDECIDED']);
  assert.equal([kept.size, kept.away], [1, true]);
});

test('a key that keytally itself cannot verify passes, and all others are verified', async () => {
  assert.equal(await get('closed'), [200, 'UNDECIDED']);
  assert.equal([kept.size, kept.away], [1, false]);
  assert.equal(await get('wrong'), [401, undefined]);
  assert.equal(await get('good'), [200, 'VALID']);
});

test('a call that keytally itself cannot decide stays kept, and those after it are reported', async () => {
  for (const key of ['closed', 'guessed', 'over-quota', 'good', 'wrong']) keep(key);
  assert.is(kept.away, true);
  assert.is(await kept.flush(), 3);
  assert.equal(asked, ['closed', 'guessed', 'over-quota', 'good', 'wrong']);
  assert.equal([kept.away, lost], [false, ['INVALID']]);
  assert.equal(await get('wrong'), [401, undefined]);
});

for (const [key, isDoubtful] of Object.entries({
  guessed: false,
  'over-quota': false,
  empty: false,
  full: false,
  overloaded: false,
  closed: true,
})) {
  const what = isDoubtful ? 'may have debited is doubtful after a while' : 'surely did not debit stays kept';
  test(`what keytally ${what}: ${key}`, async () => {
    const calls = [1, 2, 3].map((): KeptCall => ({ input: { key }, idempotencyKey: crypto.randomUUID() }));
    // Together they leave in a batch, of which there is time for one attempt.
    const send = async () => Promise.allSettled(calls.map((call) => sendKept(client, call, { timeoutMs: 1_000 })));
    for (const { status } of await later(0, send)) assert.is(status, 'rejected');
    assert.is(asked.length, 1);
    for (const call of calls) kept.keep(call, true);
    assert.is(await kept.flush(), 3);
    isBack = true;
    await later(60_000, async () => assert.is(await kept.flush(), 0));
    assert.equal(lost, isDoubtful ? ['DOUBTFUL', 'DOUBTFUL', 'DOUBTFUL'] : []);
  });
}

test('what one attempt may have debited is doubtful, whatever the next one was answered', async () => {
  const call: KeptCall = { input: { key: 'full' }, idempotencyKey: 'a' };
  const answered = fetch;
  let attempts = 0;
  const fails = async (...request: Parameters<typeof fetch>) => {
    if (++attempts === 1) throw new Error('its answer was lost');
    return answered(...request);
  };
  const refused = await sendKept(connect({ fetch: fails }), call, {}).catch((thrown: unknown) => thrown);
  assert.equal([attempts, (refused as KeytallyError).code], [2, 50306]);
  kept.keep(call, true);
  isBack = true;
  await later(60_000, async () => assert.is(await kept.flush(), 0));
  assert.equal(lost, ['DOUBTFUL']);
});

for (const [key, told] of Object.entries({ 'used-up': 'USAGE_LIMITED', wrong: 'DOUBTFUL', untrusted: 'DOUBTFUL' })) {
  test(`a call that may have been debited is handed back as ${told}: ${key}`, async () => {
    kept.keep({ input: { key }, idempotencyKey: 'a', sentAtMs: performance.now() });
    assert.is(await kept.flush(), 0);
    assert.equal(lost, [told]);
  });
}

test('a rate limit says that a call was not debited, so that it is sent again however long that takes', async () => {
  kept.keep({ input: { key: 'too-fast' }, idempotencyKey: 'a', sentAtMs: performance.now() });
  assert.is(await kept.flush(), 1);
  isBack = true;
  await later(60_000, async () => assert.is(await kept.flush(), 0));
  assert.equal(lost, []);
});

test('where something else answers, or nobody, those after it wait', async () => {
  for (const key of ['proxied', 'good']) keep(key);
  assert.is(await kept.flush(), 2);
  assert.equal([asked, kept.away, lost], [['proxied'], true, []]);
});

test('a call that is given up counts as an outage only where nobody is ready', async () => {
  const { timeout } = AbortSignal;
  AbortSignal.timeout = () => AbortSignal.abort();
  try {
    for (const isReady of [true, false]) {
      let asks = 0;
      // At first it is ready.
      const ready = async () => asks++ === 0 || isReady;
      kept = keepUsage({ ...client, ready }, { onLost: (_, why) => void lost.push(why), pauseMs: 60_000 });
      keep('good');
      assert.is(await kept.flush(), 1);
      assert.equal([kept.away, lost], [!isReady, []]);
    }
  } finally {
    AbortSignal.timeout = timeout;
  }
});

test.run();

function connect(more: Partial<ClientOptions> = {}): Keytally {
  const { port } = server.address() as AddressInfo;
  return keytally({ url: `http://127.0.0.1:${port}`, token: 'x', timeoutMs: 20_000, verifyTimeoutMs: 20_000, ...more });
}

function error(code: number): string {
  return JSON.stringify({ error: { code, message: 'no' } });
}

/** Does something as if so much time had passed, and as if it took none. */
async function later<Result>(ms: number, act: () => Promise<Result>): Promise<Result> {
  const { now } = performance;
  const thenMs = now.call(performance) + ms;
  performance.now = () => thenMs;
  try {
    return await act();
  } finally {
    performance.now = now;
  }
}

function keep(key: string): void {
  kept.keep({ input: { key }, idempotencyKey: crypto.randomUUID() });
}

async function get(key: string, asking = client): Promise<[status: number, identity: string | undefined]> {
  const guard = nodeGuard(asking, { open: kept, onError: (error: Error) => void errors.push(error.message) });
  const request = { method: 'GET', url: '/', headers: { 'x-api-key': key }, socket: {} };
  const response = { statusCode: 200, setHeader() {}, end() {} };
  let identity: string | undefined;
  await guard(request, response, () => void (identity = identityOf(request).status));
  return [response.statusCode, identity];
}
