// Usage that is kept while keytally is unavailable: it is bounded, sent until it is decided, and told to the app where it can't be.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { identityOf, keepUsage, KeytallyError, nodeGuard, type KeptUsage } from './index.ts';

const clock = makeClock();
/** What was told to the newest kept usage. */
let lost: unknown[] = [];
/** What each key is answered: a status, a code, or nothing at all. */
let answers: Record<string, string | number | undefined> = {};
/** The keys that were asked for. */
const asked: string[] = [];
let requests = 0;
const client = makeClient({ url: 'http://keytally', token: 'x', fetch: keytally }, clock);
test.before.each(() => {
  asked.length = 0;
});

async function keytally(url: unknown, init?: RequestInit): Promise<Response> {
  requests += 1;
  if (init?.method === 'GET') return answers['ready'] === undefined ? Promise.reject(new Error()) : new Response('{}');
  const { key, verifications = [{ key }] } = JSON.parse(init?.body as string);
  const results = (verifications as { key: string }[]).map(({ key }) => {
    asked.push(key);
    const said = answers[key];
    return typeof said === 'number' ? { error: { code: said, message: 'no' } } : said && { status: said };
  });
  if (results.includes(undefined)) throw new Error('the connection was lost');
  const { error } = results[0] as { error?: { code: number } };
  if (String(url).endsWith('/batch')) return Response.json({ results });
  return Response.json(results[0], { status: error ? Math.floor(error.code / 100) : 200 });
}

test('while nobody answers requests pass unasked, no more are kept than may be, and all are sent once it is back', async () => {
  const kept = keep(100);
  answers = {};
  assert.equal(await get(kept, 'key_0'), [200, 'UNDECIDED']);
  asked.length = 0;
  for (let i = 1; i < 100; i++) assert.equal(await get(kept, `key_${i}`), [200, 'UNDECIDED']);
  assert.equal([await get(kept, 'key_100'), kept.size, kept.away], [[503, undefined], 100, true]);
  await pass(60_000);
  assert.equal([asked, kept.size], [[], 100]);
  answers = { ready: 'VALID', ...Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`key_${i}`, 'VALID'])) };
  await pass(2_000);
  // The first may have been debited, which keytally can no longer tell.
  assert.equal([asked.length, kept.size, kept.away, lost], [99, 0, false, ['DOUBTFUL']]);
  answers = { ready: 'VALID', key_nobody: 'INVALID' };
  assert.equal(await get(kept, 'key_nobody'), [401, undefined]);
});

test('a request passes where keytally cannot decide its key, and not for a mistake or a quota, which wrong keys can use up', async () => {
  for (const [code, ...expected] of [
    [42901, 500, 0],
    [42920, 503, 0],
    [50305, 200, 1],
  ] as const) {
    answers = { key_a: code };
    const kept = keep();
    assert.equal([(await get(kept, 'key_a'))[0], kept.size, kept.away], [...expected, false], String(code));
  }
});

test('what keytally cannot decide now is sent again, however long that takes where it surely debited nothing, and others are decided', async () => {
  for (const answer of [42901, 42920, 50301, 50306, 50308, 'RATE_LIMITED', 50305]) {
    answers = { ready: 'VALID', key_a: answer, key_b: 'DELETED' };
    const kept = keep();
    for (const key of ['key_a', 'key_b']) kept.keep({ input: { key }, idempotencyKey: key }, true);
    await pass(30_000);
    assert.equal([kept.size, kept.away, lost], [1, false, ['DELETED']], String(answer));
    await pass(answer === 50305 ? 60_000 : 600_000);
    answers = { key_a: 'VALID' };
    await pass(30_000);
    assert.equal([kept.size, lost.slice(1)], [0, answer === 50305 ? ['DOUBTFUL'] : []], String(answer));
  }
});

test('a refusal says nothing of an earlier attempt, unless keytally looked for its debit, and none is repeated too late', async () => {
  for (const [answer, agoMs, why] of [
    ['INVALID', undefined, ['INVALID']],
    [40102, undefined, ['no']],
    ['VALID', 0, []],
    ['USAGE_LIMITED', 0, ['USAGE_LIMITED']],
    ['DELETED', 0, ['DOUBTFUL']],
    [40102, 0, ['DOUBTFUL']],
    // After a pause of a second.
    ['VALID', 48_999, []],
    ['VALID', 49_000, ['DOUBTFUL']],
  ] as const) {
    answers = { ready: 'VALID', key_a: answer };
    const call = { input: { key: 'key_a' }, idempotencyKey: 'a' };
    const kept = keep();
    kept.keep({ ...call, ...(agoMs !== undefined && { sentAtMs: clock.now() - agoMs }) }, true);
    await pass(1_000);
    assert.equal([await kept.flush(), lost], [0, why], `${answer} ${agoMs}`);
  }
});

test('a call that cannot be sent is handed back, and flush waits for the others no longer than it may', async () => {
  answers = { ready: 'VALID', key_a: 50301 };
  const kept = keep();
  kept.keep({ input: { key: 1n as unknown as string }, idempotencyKey: 'a' }, true);
  kept.keep({ input: { key: 'key_a' }, idempotencyKey: 'b' }, true);
  const left = kept.flush();
  await pass(20_000);
  assert.equal([await left, lost], [1, ['the call cannot be sent: TypeError: Do not know how to serialize a BigInt']]);
});

function keep(atMost = 10): KeptUsage {
  const told: unknown[] = (lost = []);
  return keepUsage(client, {
    onLost(_, why) {
      told.push(why instanceof KeytallyError ? why.message : why);
      throw new Error('printed by this test');
    },
    atMost,
  });
}

/** Lets time pass, a second at a time, and what follows from it: that has ended once nothing was asked for some turns. */
async function pass(ms: number): Promise<void> {
  for (const until = clock.now() + ms; clock.now() < until; clock.pass(1_000)) await ended();
  await ended();
}

async function ended(): Promise<void> {
  for (let [turns, before] = [0, -1]; turns < 10; turns = before === requests ? turns + 1 : 0) {
    before = requests;
    await new Promise(setImmediate);
  }
}

/** The status for a request of a key, and what its handler knows. */
async function get(open: KeptUsage, key: string) {
  const guard = nodeGuard(client, { cost: '1', open, onError() {} });
  const request = { method: 'GET', url: '/', headers: { 'x-api-key': key }, socket: {} };
  const response = { statusCode: 200, setHeader() {}, end() {} };
  let identity: string | undefined;
  await guard(request, response, () => void (identity = identityOf(request).status));
  return [response.statusCode, identity] as const;
}
