import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { identityOf, keepUsage, keytally, KeytallyError, nodeGuard, type Keytally, type KeptUsage } from './index.ts';
import type { KeptCall } from './kept-usage.ts';
import { makeProxy, type Proxy } from './helpers/proxy.ts';

let world: World;
let proxy: Proxy;
let client: Keytally;
// For calls that are to be answered.
let patient: Keytally;
let customers: Customers;
let workspaceId: string;
const servers: Server[] = [];
const lost: unknown[] = [];
const onLost = (_: unknown, why: unknown) => void lost.push(why);

const test = suite('usage that is kept while keytally is unavailable');
test.before(async () => {
  world = await makeWorld(['verify']);
  proxy = await makeProxy(world.verify!.url);
  client = keytally({ url: proxy.url, token: world.team.token, verifyTimeoutMs: 3_000 });
  patient = keytally({ url: proxy.url, token: world.team.token, verifyTimeoutMs: 20_000 });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  workspaceId = workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.before.each(() => {
  proxy.fate = 'pass';
  lost.length = 0;
});
test.after.each(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});
test.after(async () => {
  proxy?.stop();
  await world.stop();
});

test('requests pass while keytally is unavailable, only the first one waits for it, and each is debited once later', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(client, { onLost, pauseMs: 50 });
  const get = await protect(kept);
  proxy.fate = 'refuse';
  for (let i = 0; i < 5; i++) assert.equal(await get(key), [200, 'UNDECIDED']);
  assert.equal([kept.size, kept.away], [5, true]);
  const asked = proxy.seen.filter((one) => one.url !== '/servingz').map((one) => one.headers['idempotency-key']);
  assert.is(new Set(asked).size, 1, 'only the first was sent');
  proxy.fate = 'pass';
  await eventually('all was reported', async () => kept.size === 0);
  assert.equal([await used(meter), kept.away, lost], ['5', false, []]);
  assert.equal(await (await protect(kept, patient))(key), [200, 'VALID']);
  assert.is(await used(meter), '6');
});

test('while verify answers nothing, 16 requests at once all pass, and each is debited once', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(client, { onLost, pauseMs: 60_000 });
  const get = await protect(kept);
  // Each is debited at its first attempt, without an answer.
  proxy.fate = 'hang';
  // So few that also a busy machine reports them before they are too old.
  const answers = await Promise.all(Array.from({ length: 16 }, () => get(key)));
  assert.equal([...new Set(answers.map(String))], ['200,UNDECIDED']);
  proxy.fate = 'pass';
  await reported(kept);
  assert.equal([await used(meter), lost], ['16', []]);
});

test('while keytally is unavailable any key passes, a request without one does not, and a wrong key is handed back', async () => {
  const kept = keepUsage(client, { onLost, pauseMs: 60_000 });
  const get = await protect(kept);
  proxy.fate = 'refuse';
  for (let i = 0; i < 2; i++) assert.equal(await get('key_nobody'), [200, 'UNDECIDED']);
  assert.equal(await get(undefined), [401, undefined]);
  proxy.fate = 'pass';
  await reported(kept);
  // Only the first was sent before, and may have been debited for all that is known here.
  assert.equal(lost, ['DOUBTFUL', 'INVALID']);
});

test('a call that was debited although its answer was lost is not debited again', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(client, { onLost, pauseMs: 60_000 });
  const get = await protect(kept);
  proxy.fate = 'lose';
  assert.equal(await get(key), [200, 'UNDECIDED']);
  assert.is(await used(meter), '1');
  proxy.fate = 'pass';
  await reported(kept);
  assert.equal([await used(meter), lost], ['1', []]);
});

test('a call that was debited although its answer was lost is doubtful where its key is refused by then', async () => {
  const scopes = [{ representation: 'documents', read: true }];
  const scope = { name: 'documents', representation: 'documents' };
  await must(201, world.call('post', `/api/v1/workspace/${workspaceId}/scope`, scope));
  const refuse: ((path: string) => Promise<unknown>)[] = [
    (path) => must(200, world.call('patch', path, { enabled: false })),
    (path) => must(200, world.call('patch', path, { scopes: [] })),
    (path) => must(200, world.call('patch', path, { allowedIPs: ['192.0.2.1'] })),
    (path) => must(200, world.call('post', `${path}/rotate`)),
    (path) => must(200, world.call('delete', path)),
  ];
  for (const change of refuse) {
    const meter = await customers.newMeter({ totalCredits: '100' });
    const { id, key } = await customers.newKey({ externalMeterId: meter, scopes });
    const kept = keepUsage(client, { onLost, pauseMs: 60_000 });
    const get = await protect(kept, client, { scopes });
    lost.length = 0;
    proxy.fate = 'lose';
    assert.equal(await get(key), [200, 'UNDECIDED']);
    await change(`/api/v1/workspace/${workspaceId}/api-key/${id}`);
    proxy.fate = 'pass';
    await reported(kept);
    assert.equal([await used(meter), lost], ['1', ['DOUBTFUL']], String(change));
  }
});

test('a call that is too old to be repeated is handed back, not debited twice', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(client, { onLost, pauseMs: 60_000 });
  kept.keep({ input: { key, billing: { usage: '1' } }, idempotencyKey: 'a', sentAtMs: performance.now() - 50_001 });
  kept.keep({ input: { key, billing: { usage: '2' } }, idempotencyKey: 'b' });
  await reported(kept);
  assert.equal([await used(meter), lost], ['2', ['DOUBTFUL']]);
});

test('a call that becomes too old while those before it are reported is handed back', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(patient, { onLost, pauseMs: 60_000 });
  const old: KeptCall = { input: { key, billing: { usage: '2' } }, idempotencyKey: 'b' };
  kept.keep({ input: { key, billing: { usage: '1' } }, idempotencyKey: 'a' });
  kept.keep(old);
  proxy.next('pass', 'hold');
  const reporting = kept.flush();
  await eventually('the first is on its way', async () => proxy.seen.length === 2);
  old.sentAtMs = performance.now() - 50_001;
  proxy.release();
  assert.is(await reporting, 0);
  assert.equal([await used(meter), lost, kept.away], ['1', ['DOUBTFUL'], false]);
});

test('where something else answers, usage stays kept', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(patient, { onLost, pauseMs: 60_000 });
  for (const fate of ['page', 'empty'] as const) {
    kept.keep({ input: { key, billing: { usage: '1' } }, idempotencyKey: crypto.randomUUID() });
    proxy.fate = fate;
    assert.ok((await kept.flush()) > 0);
    proxy.fate = 'pass';
    await reported(kept);
  }
  assert.equal([await used(meter), lost], ['2', []]);
});

test('an onLost that throws, and a call that cannot be sent, keep nothing from being reported', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(patient, {
    pauseMs: 60_000,
    onLost(_, why) {
      lost.push(why instanceof KeytallyError ? why.message : why);
      throw new Error('printed by this test');
    },
  });
  const usageName = 1n as unknown as string;
  kept.keep({ input: { key: 'key_nobody' }, idempotencyKey: 'a' });
  kept.keep({ input: { key, billing: { usage: '1', usageName } }, idempotencyKey: 'b' });
  kept.keep({ input: { key, billing: { usage: '1' } }, idempotencyKey: 'c' });
  await reported(kept);
  assert.equal(lost, ['INVALID', 'the call cannot be sent: TypeError: Do not know how to serialize a BigInt']);
  assert.is(await used(meter), '1');
});

test('no more calls are kept than atMost: beyond that, requests are refused', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const kept = keepUsage(client, { onLost, pauseMs: 60_000, atMost: 2 });
  const get = await protect(kept);
  proxy.fate = 'html';
  assert.equal(await get(key), [200, 'UNDECIDED']);
  assert.equal(await get(key), [200, 'UNDECIDED']);
  assert.equal(await get(key), [503, undefined]);
  assert.is(await kept.flush(), 2, 'it is still unavailable');
  proxy.fate = 'pass';
  await reported(kept);
  assert.is(await used(meter), '2');
});

test('usage of a key that is refused later is handed back with its status; a rate limit only delays it', async () => {
  const { key, meter } = await customers.meteredKey('2');
  const kept = keepUsage(client, { onLost, pauseMs: 100 });
  const slow = await customers.newKey({ externalMeterId: meter, rateLimitPerSecond: 1 });
  const report = (text: string, usage: string) =>
    kept.keep({ input: { key: text, billing: { usage } }, idempotencyKey: crypto.randomUUID() });
  report('key_nobody', '1');
  report(key, '3');
  report(slow.key, '1');
  report(slow.key, '1');
  report(key, '-1');
  await eventually('all was decided', async () => kept.size === 0);
  assert.is(await used(meter), '2');
  const [first, second, third] = lost as [string, string, { status: number }];
  assert.equal([lost.length, first, second, third.status], [3, 'INVALID', 'USAGE_LIMITED', 400]);
});

test('while keytally answers, a wrong key is refused although usage may be kept', async () => {
  const get = await protect(keepUsage(client, { onLost }), patient);
  assert.equal(await get('key_nobody'), [401, undefined]);
  assert.equal(await get(undefined), [401, undefined]);
});

test.run();

async function protect(open: KeptUsage, guarding = client, more: object = {}) {
  const guard = nodeGuard(guarding, { cost: '1', open, ...more });
  const server = createServer((request, response) =>
    guard(request, response, () => response.end(JSON.stringify(identityOf(request)))),
  );
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return async (key: string | undefined): Promise<[status: number, identity: unknown]> => {
    const answer = await fetch(url, { headers: key ? { 'X-API-Key': key } : {} });
    return [answer.status, ((await answer.json()) as { status?: string }).status];
  };
}

/** Reports again and again, since on a busy machine an answer may come too late. */
async function reported(kept: KeptUsage): Promise<void> {
  await eventually('all is reported', async () => (await kept.flush()) === 0);
}

async function used(meter: string): Promise<string> {
  return (await customers.billing(meter)).usedCredits;
}
