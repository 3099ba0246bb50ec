// Usage that is kept while keytally is unavailable: it is billed once, bounded, or told to the app.
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, newWorkspace } from '../../tests/helpers/customers.ts';
import { joinWorld } from '../../tests/helpers/world.ts';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { listen } from './helpers/listen.ts';
import { makeProxy } from './helpers/proxy.ts';
import { identityOf, keepUsage, KeytallyError, nodeGuard, type Keytally, type KeptUsageOptions } from './index.ts';
import type { KeptCall } from './kept-usage.ts';

const PAUSE_MS = 1_000;

const clock = makeClock();
const lost: unknown[] = [];
const errors: string[] = [];

// What a server says of each key. A repetition would come too late.
const answers: Record<string, [status: number, body: string]> = {
  good: [200, '{"status":"VALID"}'],
  wrong: [200, '{"status":"INVALID"}'],
  'used-up': [200, '{"status":"USAGE_LIMITED"}'],
  'too-fast': [200, '{"status":"RATE_LIMITED"}'],
  untrusted: errorOf(40102),
  guessed: errorOf(42901),
  'over-quota': errorOf(42920),
  empty: errorOf(50301),
  closed: errorOf(50305),
  full: errorOf(50306),
  overloaded: errorOf(50308),
  proxied: [429, 'slow down'],
};
let isBack = false;
const asked: string[] = [];

const world = await joinWorld();
const proxy = await makeProxy(world.verify.url);
const client = makeClient({ url: proxy.url, token: world.team.token }, clock);
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);
const server = createServer(async (request, response) => {
  if (request.method === 'GET') return void response.end('{}');
  const { key } = (await json(request)) as { key: string };
  asked.push(key);
  const [status, text] = answers[isBack ? 'good' : key]!;
  return void response.writeHead(status, { 'Retry-After': '60' }).end(text);
});
const told = await listen(server);
/** A client of that server. */
const teller = makeClient({ url: told.url, token: 'x' }, clock);
test.before.each(() => {
  lost.length = errors.length = asked.length = 0;
  isBack = false;
  proxy.fate = 'pass';
  proxy.next();
});
test.after(() => {
  proxy.stop();
  told.stop();
  return world.stop();
});

test('no more calls are kept than atMost: beyond that, requests are refused', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keep({ atMost: 2 });
  proxy.fate = 'html';
  for (const expected of [200, 200, 503]) assert.is((await get(client, kept, key))[0], expected);
  assert.is(await kept.flush(), 2, 'it is still unavailable');
  proxy.fate = 'page';
  assert.is(await kept.flush(), 2, 'something else answers');
  proxy.fate = 'pass';
  assert.is(await kept.flush(), 0);
  assert.equal([await used(meter), lost], ['2', []]);
});

test('a call that was debited although its answer was lost is not debited again, and is doubtful where keytally can no longer tell', async () => {
  for (const [change, why] of [
    [async () => {}, []],
    [(path: string) => must(200, world.call('patch', path, { enabled: false })), ['DOUBTFUL']],
    [async () => clock.pass(50_000), ['DOUBTFUL']],
  ] as const) {
    lost.length = 0;
    const meter = await customers.newMeter({ totalCredits: '100' });
    const { id, key } = await customers.newKey({ externalMeterId: meter });
    const kept = keep({ pauseMs: 1e9 });
    proxy.fate = 'lose';
    assert.equal(await get(client, kept, key), [200, 'UNDECIDED']);
    assert.is(await used(meter), '1');
    await change(`/api/v1/workspace/${workspaceId}/api-key/${id}`);
    proxy.fate = 'pass';
    assert.is(await kept.flush(), 0);
    assert.equal([await used(meter), lost], ['1', why]);
  }
});

test('usage that keytally refuses later is handed back with the reason, also by an onLost that throws, and the rest is debited', async () => {
  const { key, meter } = await customers.meteredKey('2');
  const kept = keep({
    onLost(_, why) {
      lost.push(why instanceof KeytallyError ? why.message : why);
      throw new Error('printed by this test');
    },
  });
  kept.keep({ input: { key: 'key_nobody' }, idempotencyKey: 'a' });
  kept.keep({ input: { key, billing: { usage: '3' } }, idempotencyKey: 'b' });
  const usageName = 1n as unknown as string;
  kept.keep({ input: { key, billing: { usage: '1', usageName } }, idempotencyKey: 'c' });
  kept.keep({ input: { key, billing: { usage: '2' } }, idempotencyKey: 'd' });
  assert.is(await kept.flush(), 0);
  const unsendable = 'the call cannot be sent: TypeError: Do not know how to serialize a BigInt';
  assert.equal([lost, await used(meter)], [['INVALID', 'USAGE_LIMITED', unsendable], '2']);
});

test('a request passes where keytally cannot decide its key, and not for a mistake or a quota, which wrong keys can use up', async () => {
  for (const [key, status, size, away] of [
    ['guessed', 500, 0, false],
    ['over-quota', 503, 0, false],
    ['closed', 200, 1, false],
    ['proxied', 200, 1, true],
  ] as const) {
    const kept = keep({ pauseMs: 1e9 }, teller);
    assert.is((await get(teller, kept, key))[0], status, key);
    assert.equal([kept.size, kept.away], [size, away], key);
  }
  assert.match(errors.join('\n'), /answered 42901[^]*answered 42920/);
  // Of several attempts, what keytally answered counts.
  const quota = [new Response(answers['over-quota']![1], { status: 429, headers: { 'Retry-After': '0' } })];
  const proxied = async (...request: Parameters<typeof fetch>) => quota.shift() ?? fetch(...request);
  const twice = makeClient({ url: told.url, token: 'x', fetch: proxied }, clock);
  assert.equal([await get(twice, keep({}, teller), 'proxied'), quota], [[503, undefined], []]);
});

test('a call that keytally cannot decide now stays kept, and those after it are reported; where nobody of keytally answers they wait', async () => {
  const kept = keep({ pauseMs: 1e9 }, teller);
  for (const key of ['closed', 'over-quota', 'wrong']) kept.keep({ input: { key }, idempotencyKey: key });
  assert.equal([await kept.flush(), kept.away, lost], [2, false, ['INVALID']]);
  const waiting = keep({ pauseMs: 1e9 }, teller);
  for (const key of ['proxied', 'wrong']) waiting.keep({ input: { key }, idempotencyKey: key });
  assert.equal([await waiting.flush(), waiting.away, lost.length], [2, true, 1]);
});

test('what keytally may have debited is doubtful after a while, and what it surely did not debit is debited later', async () => {
  for (const [key, isDoubtful] of Object.entries({
    guessed: false,
    'over-quota': false,
    'too-fast': false,
    empty: false,
    full: false,
    overloaded: false,
    closed: true,
  })) {
    const kept = keep({ pauseMs: 1e9 }, teller);
    kept.keep({ input: { key }, idempotencyKey: key }, true);
    assert.is(await kept.flush(), 1, key);
    isBack = true;
    clock.pass(50_000);
    assert.is(await kept.flush(), 0, key);
    assert.equal(lost.splice(0), isDoubtful ? ['DOUBTFUL'] : [], key);
    isBack = false;
  }
});

test('what may have been debited is not sent again once reporting others took too long, nor after a refusal that followed an attempt without an answer', async () => {
  const onLost = (_: unknown, why: unknown) => {
    lost.push(why);
    clock.pass(50_000);
  };
  const slow = keep({ onLost }, teller);
  slow.keep({ input: { key: 'wrong' }, idempotencyKey: 'a' });
  slow.keep({ input: { key: 'good' }, idempotencyKey: 'b', sentAtMs: clock.now() });
  assert.equal([await slow.flush(), lost.splice(0), asked.splice(0)], [0, ['INVALID', 'DOUBTFUL'], ['wrong']]);

  let isLost = true;
  const losing = async (...request: Parameters<typeof fetch>) => {
    const answer = await fetch(...request);
    if (!isLost) return answer;
    isLost = false;
    throw new TypeError('fetch failed');
  };
  const kept = keep({ pauseMs: 1e9 }, teller);
  assert.equal(await get(makeClient({ url: told.url, token: 'x', fetch: losing }, clock), kept, 'full'), [
    200,
    'UNDECIDED',
  ]);
  isBack = true;
  clock.pass(50_000);
  assert.equal([await kept.flush(), lost, asked], [0, ['DOUBTFUL'], ['full', 'full']]);
});

test('a refusal says nothing of an earlier attempt, unless keytally looked for its debit', async () => {
  for (const [key, why] of Object.entries({ 'used-up': 'USAGE_LIMITED', wrong: 'DOUBTFUL', untrusted: 'DOUBTFUL' })) {
    const kept = keep({}, teller);
    const call: KeptCall = { input: { key }, idempotencyKey: 'a', sentAtMs: clock.now() };
    kept.keep(call);
    assert.equal([await kept.flush(), lost.splice(0)], [0, [why]], key);
  }
});

function keep(options: Partial<KeptUsageOptions> = {}, reporting = client) {
  const onLost = (_: unknown, why: unknown) => void lost.push(why);
  return keepUsage(reporting, { onLost, pauseMs: PAUSE_MS, ...options });
}

function errorOf(code: number): [number, string] {
  return [Math.floor(code / 100), JSON.stringify({ error: { code, message: 'no' } })];
}

/** The status for a request of a key, and what its handler knows. */
async function get(asking: Keytally, open: ReturnType<typeof keepUsage>, key: string | undefined) {
  const onError = (error: Error) => void errors.push(error.message);
  const guard = nodeGuard(asking, { cost: '1', open, onError });
  const request = { method: 'GET', url: '/', headers: { 'x-api-key': key }, socket: {} };
  const response = { statusCode: 200, setHeader() {}, end() {} };
  let identity: string | undefined;
  await guard(request, response, () => void (identity = identityOf(request).status));
  return [response.statusCode, identity] as const;
}

async function used(meter: string): Promise<string> {
  return (await customers.billing(meter)).usedCredits;
}
