// Usage that is kept while keytally is unavailable: it is billed once, bounded, or told to the app.
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, newWorkspace } from '../../tests/helpers/customers.ts';
import { eventually, joinWorld } from '../../tests/helpers/world.ts';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { listen } from './helpers/listen.ts';
import { makeProxy } from './helpers/proxy.ts';
import { identityOf, keepUsage, KeytallyError, nodeGuard, type KeptUsage, type KeptUsageOptions } from './index.ts';

const clock = makeClock();
const lost: unknown[] = [];

const world = await joinWorld();
const proxy = await makeProxy(world.verify.url);
const client = makeClient({ url: proxy.url, token: world.team.token }, clock);
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);
// A server that says the answer of each key, which is a status or a code, and in the end that it is valid.
let isBack = false;
const server = createServer(async (request, response) => {
  if (request.method === 'GET') return void response.end('{}');
  const { key, verifications } = (await json(request)) as { key: string; verifications?: { key: string }[] };
  const answer = (key: string) =>
    isBack || !Number(key) ? { status: isBack ? 'VALID' : key } : { error: { code: Number(key) } };
  if (verifications) return void response.end(JSON.stringify({ results: verifications.map(({ key }) => answer(key)) }));
  const { error } = answer(key);
  if (error) response.writeHead(Math.floor(error.code / 100));
  return void response.end(JSON.stringify(answer(key)));
});
const told = await listen(server);
const teller = makeClient({ url: told.url, token: 'x' }, clock);
test.before.each(() => {
  lost.length = 0;
  isBack = false;
  proxy.fate = 'pass';
  proxy.next();
});
test.after(() => {
  proxy.stop();
  told.stop();
  return world.stop();
});

test('with verify stopped 200 of 200 requests pass, no more are kept than may be, and each is billed once', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const kept = keep({ atMost: 200, pauseMs: 1_000 });
  for (proxy.fate of ['refuse', 'html'] as const)
    for (let i = 0; i < 100; i++) assert.equal(await get(kept, key), [200, 'UNDECIDED']);
  assert.equal(await get(kept, key), [503, undefined]);
  for (proxy.fate of ['refuse', 'html', 'page'] as const) assert.equal([await kept.flush(), kept.away], [200, true]);
  proxy.fate = 'pass';
  await eventually('all are sent again by themselves', async () => {
    clock.pass(1_000);
    return kept.size === 0;
  });
  assert.equal([kept.away, lost], [false, []]);
  assert.is((await customers.billing(meter)).usedCredits, '200');
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
    const kept = keep();
    proxy.fate = 'lose';
    assert.equal(await get(kept, key), [200, 'UNDECIDED']);
    await change(`/api/v1/workspace/${workspaceId}/api-key/${id}`);
    proxy.fate = 'pass';
    assert.is(await kept.flush(), 0);
    assert.equal([(await customers.billing(meter)).usedCredits, lost], ['1', why]);
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
  kept.keep({ input: { key: 1n as unknown as string }, idempotencyKey: 'c' });
  kept.keep({ input: { key, billing: { usage: '2' } }, idempotencyKey: 'd' });
  assert.is(await kept.flush(), 0);
  const unsendable = 'the call cannot be sent: TypeError: Do not know how to serialize a BigInt';
  assert.equal(new Set(lost), new Set(['INVALID', 'USAGE_LIMITED', unsendable]));
  assert.is((await customers.billing(meter)).usedCredits, '2');
});

test('a request passes where keytally cannot decide its key, and not for a mistake or a quota, which wrong keys can use up', async () => {
  for (const [key, ...expected] of [
    ['42901', 500, 0],
    ['42920', 503, 0],
    ['50305', 200, 1],
  ] as const) {
    const kept = keep({}, teller);
    assert.equal([(await get(kept, key, teller))[0], kept.size, kept.away], [...expected, false], key);
  }
});

test('what keytally cannot decide now is sent again, however long that takes where it surely debited nothing, and others are decided', async () => {
  for (const [key, why] of Object.entries({
    42901: [],
    42920: [],
    50301: [],
    50306: [],
    50308: [],
    RATE_LIMITED: [],
    50305: ['DOUBTFUL'],
  })) {
    const kept = keep({}, teller);
    for (const one of [key, 'DELETED']) kept.keep({ input: { key: one }, idempotencyKey: one }, true);
    assert.equal([await kept.flush(), kept.away, lost.splice(0)], [1, false, ['DELETED']], key);
    isBack = true;
    clock.pass(50_000);
    assert.equal([await kept.flush(), lost.splice(0)], [0, why], key);
    isBack = false;
  }
});

test('a refusal says nothing of an earlier attempt, unless keytally looked for its debit, and none is repeated too late', async () => {
  for (const [key, agoMs, why] of [
    ['USAGE_LIMITED', 0, 'USAGE_LIMITED'],
    ['DELETED', 0, 'DOUBTFUL'],
    ['40102', 0, 'DOUBTFUL'],
    ['VALID', 50_000, 'DOUBTFUL'],
  ] as const) {
    const kept = keep({}, teller);
    kept.keep({ input: { key }, idempotencyKey: 'a', sentAtMs: clock.now() - agoMs });
    assert.equal([await kept.flush(), lost.splice(0)], [0, [why]], key);
  }
});

function keep(options: Partial<KeptUsageOptions> = {}, sending = client) {
  return keepUsage(sending, { onLost: (_, why) => void lost.push(why), pauseMs: 1e9, ...options });
}

/** The status for a request of a key, and what its handler knows. */
async function get(open: KeptUsage, key: string, asking = client) {
  const guard = nodeGuard(asking, { cost: '1', open, onError() {} });
  const request = { method: 'GET', url: '/', headers: { 'x-api-key': key }, socket: {} };
  const response = { statusCode: 200, setHeader() {}, end() {} };
  let identity: string | undefined;
  await guard(request, response, () => void (identity = identityOf(request).status));
  return [response.statusCode, identity] as const;
}
