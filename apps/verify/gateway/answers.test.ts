import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { MOST_PER_SECOND, refusals } from '../../../tests/helpers/end-clients.ts';
import { bearer, openAsking, POLICY, type Asking } from './helpers/asking.ts';

let asking: Asking;
const test = suite('answers to gateways');
test.before(async () => void (asking = await openAsking()));
test.after(() => asking?.stop());

test('a request that may pass gets 200 without a body, with its identity and what is left', async () => {
  const { clients, pass } = asking;
  const before = await clients.usedCredits();
  const { status, text, headers } = await pass(`plain/${POLICY}/documents/1?x`);
  assert.equal([status, text, headers.get('content-length')], [200, '', '0']);
  const { good, workspaceId } = clients;
  const expected = {
    'x-keytally-key-id': good.id,
    'x-keytally-workspace-id': workspaceId,
    'x-keytally-customer-id': 'cus%20acm%C3%A9',
    'x-keytally-meter-id': good.meter,
    'x-keytally-status': 'VALID',
    'x-keytally-remaining-credits': String(100_000 - before - 1),
    'ratelimit-policy': `"key";q=${MOST_PER_SECOND};w=1`,
    'x-ratelimit-limit': String(MOST_PER_SECOND),
  };
  for (const [name, value] of Object.entries(expected)) assert.is(headers.get(name), value, name);
  assert.match(headers.get('ratelimit') ?? '', /^"key";r=\d{5};t=[01]$/);
  assert.match(headers.get('x-ratelimit-remaining') ?? '', /^\d{5}$/);
  assert.match(headers.get('x-ratelimit-reset') ?? '', /^\d{10}$/);
  assert.is(await clients.usedCredits(), before + 1);
  const { c, n, r } = await asking.newestEvent(good.key);
  assert.equal([c, n, r], [1_000_000, 'reads', 'GET /documents/1']);
});

test('identity headers are always there, empty without a value, whatever the end client sent', async () => {
  const { clients, ask } = asking;
  const { key, id } = await clients.customers.newKey();
  const spoofed = { 'X-Keytally-Customer-Id': 'admin', 'X-Keytally-Remaining-Credits': '1', RateLimit: '"x";r=9' };
  const { status, headers } = await ask('plain/-/', { headers: { ...bearer(key), ...spoofed } });
  assert.equal([status, headers.get('x-keytally-key-id')], [200, id]);
  const empty = ['X-Keytally-Customer-Id', 'X-Keytally-Meter-Id', 'X-Keytally-Remaining-Credits', 'RateLimit'];
  const limits = ['RateLimit-Policy', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];
  for (const name of [...empty, ...limits]) assert.is(headers.get(name), '', name);
});

test('remaining credits go down to the credits or the spend cap, and are empty without a limit', async () => {
  const { clients, ask } = asking;
  for (const [fields, remaining] of [
    [{ totalCredits: '1', allowOverages: true }, ''],
    [{ totalCredits: '1', allowOverages: true, spendCap: '2.5' }, '2'],
    [{ totalCredits: '9', spendCap: '0.75' }, '0.25'],
  ] as const) {
    const { key } = await clients.customers.newKey({ externalMeterId: await clients.customers.newMeter(fields) });
    const { headers } = await ask('plain/usage=0.5/', { headers: bearer(key) });
    assert.is(headers.get('x-keytally-remaining-credits'), remaining);
  }
});

test('a refused key costs nothing', async () => {
  const { clients, ask } = asking;
  const before = await clients.usedCredits();
  for (const [name, [status, code]] of Object.entries(refusals)) {
    const send = () => ask(`plain/${POLICY}/`, { headers: bearer(clients.keys[name as keyof typeof refusals]) });
    const answer = name === 'slow' ? await clients.whileRateLimited(send, (a) => a.status === 429) : await send();
    assert.equal([answer.status, answer.error?.code], [status, code], name);
    assert.is(answer.headers.get('www-authenticate'), status === 401 ? 'Bearer' : null, name);
    assert.is(answer.headers.get('retry-after') !== null, status === 429, name);
    assert.is(answer.headers.get('x-keytally-key-id'), null, name);
    if (name !== 'slow') continue;
    assert.match(answer.headers.get('ratelimit') ?? '', /^"key";r=0;t=[01]$/);
    assert.is(answer.headers.get('ratelimit-policy'), '"key";q=1;w=1');
  }
  assert.is(await clients.usedCredits(), before);
});

test('nginx gets 403 where others get 429, with the reason in X-Keytally-Status', async () => {
  const { clients, ask } = asking;
  for (const [name, status] of [
    ['slow', 'RATE_LIMITED'],
    ['poor', 'USAGE_LIMITED'],
  ] as const) {
    const send = () => ask(`nginx/${POLICY}/`, { headers: bearer(clients.keys[name]) });
    const answer = await clients.whileRateLimited(send, (a) => a.status === 403);
    assert.equal([answer.status, answer.headers.get('x-keytally-status')], [403, status]);
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
  }
  const { status, headers } = await ask(`nginx/${POLICY}/`, { headers: bearer(clients.keys.expired) });
  assert.equal([status, headers.get('x-keytally-status')], [401, 'EXPIRED']);
});

test.run();
