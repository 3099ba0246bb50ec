import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request as ask, type IncomingMessage } from 'node:http';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, newWorkspace } from '../../tests/helpers/customers.ts';
import { joinWorld } from '../../tests/helpers/world.ts';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { frameworks } from './helpers/frameworks.ts';
import type { App } from './helpers/listen.ts';
import { makeProxy } from './helpers/proxy.ts';
import { identityOf, keytally } from './index.ts';

const scopes = [{ representation: 'documents', read: true }];

/** One key for each way in which a request passes or is refused. */
const keys: Record<string, string> = { unknown: 'key_nobody' };
const apps: Record<string, App> = {};
const errors: string[] = [];
let handled = 0;

const world = await joinWorld();
const proxy = await makeProxy(world.verify.url);
const client = keytally({ url: proxy.url, token: world.team.token, verifyTimeoutMs: 20_000 });
const id = await newWorkspace(world);
const scope = { name: 'documents', representation: 'documents' };
await must(201, world.call('post', `/api/v1/workspace/${id}/scope`, scope));
const customers = makeCustomers(world, id);
for (const [name, fields] of Object.entries({
  good: { customerId: 'cus', rateLimitPerSecond: 100_000 },
  noScope: { scopes: [] },
  local: { allowedIPs: ['203.0.113.0/24', '2001:db8::/32'] },
  disabled: { enabled: false },
  poor: { externalMeterId: await customers.newMeter({ totalCredits: '0.5' }) },
})) {
  keys[name] = (await customers.newKey({ scopes, ...fields })).key;
}
const costOf = (url: string) => {
  const n = new URL(url, 'http://a').searchParams.get('n') ?? '1';
  return n === 'free' ? '0' : { usage: n, usageName: 'requests' };
};
for (const [name, start] of Object.entries(frameworks)) {
  apps[name] = await start(client, { costOf, scopes }, (_, request) => {
    handled += 1;
    return identityOf(request);
  });
}
test.before.each(() => {
  handled = errors.length = 0;
  proxy.fate = 'pass';
  proxy.next();
});
test.after(async () => {
  await Promise.all(Object.values(apps).map((app) => app.stop()));
  proxy.stop();
});

for (const [name, start] of Object.entries(frameworks)) {
  const get = (headers: Record<string, string>, query = '') =>
    fetch(`${apps[name]!.url}/v1/documents/1${query}`, { headers });
  const bearer = (key: string | undefined, more: object = {}) => get({ Authorization: `Bearer ${key}`, ...more });
  const basic = (text: string) => get({ Authorization: `Basic ${btoa(text)}` });

  test(`${name}: a good key passes in each of the three ways, and the handler knows whose request it is`, async () => {
    const { good } = keys;
    for (const answer of await Promise.all([bearer(good), get({ 'X-API-Key': good! }), basic(`${good}:`)])) {
      const { status, customerId } = (await answer.json()) as { status: string; customerId: string };
      assert.equal([answer.status, status, customerId], [200, 'VALID', 'cus']);
      assert.match(answer.headers.get('ratelimit') ?? '', /^"key";r=\d{5};t=[01]$/);
    }
    assert.is((await bearer(good, { 'X-API-Key': good })).status, 200, 'the same twice');
    assert.is(handled, 4);
  });

  test(`${name}: no key, two keys and text that is no key are refused without asking keytally`, async () => {
    const { good, noScope } = keys;
    await refused(get({}), 401, 40110);
    await refused(get({ Authorization: `Digest ${good}` }), 401, 40110);
    await refused(bearer(good, { 'X-API-Key': noScope }), 401, 40111);
    await refused(basic(`${good}:${noScope}`), 401, 40111);
    await refused(bearer('x'.repeat(513)), 401, 40112);
    // Of several Authorization headers Node shows the first alone.
    for (const [first, second] of [
      [good, noScope],
      [noScope, good],
    ])
      assert.is(await statusOfTwo(apps[name]!.url, `Bearer ${first}`, `Bearer ${second}`), 401);
    assert.equal([proxy.seen.length, handled], [0, 0]);
  });

  test(`${name}: a key is refused by its status, and an allow list holds, whatever the end client says its address is`, async () => {
    await refused(bearer(keys.unknown), 401, 40112);
    await refused(bearer(keys.disabled), 401, 40114);
    await refused(bearer(keys.noScope), 403, 40310);
    await refused(bearer(keys.poor), 402, 40210);
    for (const ip of ['203.0.114.9', 'unknown', '203.0.113.9:80', 'fe80::1%eth0', ''])
      await refused(bearer(keys.local, { 'X-Forwarded-For': ip }), 403, 40311);
    assert.is(handled, 0);
    for (const ip of ['203.0.113.9', '2001:db8::1'])
      assert.is((await bearer(keys.local, { 'X-Forwarded-For': ip })).status, 200, ip);
  });

  test(`${name}: each request is debited what its cost function gives, and recorded under its whole path`, async () => {
    const meter = await customers.newMeter({ totalCredits: '100' });
    const { key } = await customers.newKey({ externalMeterId: meter, scopes });
    for (const n of ['2', '0.25', 'free']) assert.is((await get({ 'X-API-Key': key }, `?n=${n}`)).status, 200);
    assert.is((await customers.billing(meter)).usedCredits, '2.25');
    const { route } = JSON.parse(proxy.seen[0]!.body) as { route: string };
    assert.is(route, 'GET /v1/documents/1');
  });

  test(`${name}: what the program's own function throws reaches the framework's error handling`, async () => {
    const costOf = () => {
      throw new Error('the price list is missing');
    };
    const app = await start(client, { costOf, onError }, unreachable);
    const answer = await fetch(`${app.url}/v1/`, { headers: { 'X-API-Key': 'key_x' } });
    assert.equal([answer.status, errors], [500, []]);
    await app.stop();
  });

  test(`${name}: while keytally answers errors, nothing, or cannot be reached, requests are refused with 503`, async () => {
    const clock = makeClock();
    const asked = () => proxy.fate === 'hang' && clock.pass(600);
    proxy.server.on('request', asked);
    const impatient = makeClient({ url: proxy.url, token: world.team.token }, clock);
    // Names of its own: cancels, which last longer than their requests, would let this clock's time pass.
    const app = await start(impatient, { costOf: () => '1', idempotencyKey: randomUUID, onError }, unreachable);
    for (const [fate, said] of [
      ['html', 'HTTP 502, but the answer is not from keytally; check the address'],
      ['refuse', `keytally cannot be reached at ${proxy.url}`],
      ['hang', 'keytally did not answer in time'],
    ] as const) {
      proxy.fate = fate;
      const { requestId } = await refused(
        fetch(`${app.url}/v1/`, { headers: { 'X-API-Key': keys.good! } }),
        503,
        50311,
      );
      assert.equal(errors.splice(0), [`keytally guard, request ${requestId}: ${said}`]);
    }
    proxy.server.off('request', asked);
    await app.stop();
  });
}

test('there is no identity without a guard', () => {
  assert.throws(() => identityOf({}), /no keytally guard/);
});

function onError(error: Error): void {
  errors.push(error.message);
}

function unreachable(): never {
  throw new Error('the handler was reached');
}

/** The status for a request with two Authorization headers, which `fetch` would join. */
async function statusOfTwo(url: string, ...authorizations: string[]): Promise<number | undefined> {
  const sent = ask(`${url}/v1/documents/1`);
  sent.setHeader('Authorization', authorizations);
  const [answer] = (await once(sent.end(), 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
}

async function refused(sent: Promise<Response>, status: number, code: number): Promise<{ requestId: string }> {
  const answer = await sent;
  const { error } = (await answer.json()) as { error: { code: number; message: string; requestId: string } };
  assert.equal(
    [answer.status, error.code, Object.keys(error)],
    [status, code, ['code', 'message', 'requestId', 'reason']],
  );
  const { headers } = answer;
  assert.is(headers.get('x-request-id'), error.requestId);
  assert.is(headers.get('www-authenticate'), status === 401 ? 'Bearer' : null);
  assert.is(Number(headers.get('retry-after')) > 0, status === 429 || status === 503);
  return error;
}
