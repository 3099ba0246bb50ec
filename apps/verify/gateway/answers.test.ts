import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../tests/helpers/customers.ts';
import { MOST_PER_SECOND, refusals } from '../../../tests/helpers/end-clients.ts';
import { bearer, openAsking, POLICY } from './helpers/asking.ts';

const { world, clients, ask, pass, eventsOf } = await openAsking();

test('a request that may pass gets 200 without a body, with its identity and what is left', async () => {
  const { status, text, headers } = await pass(`plain/${POLICY}/documents/1?x`);
  assert.equal([status, text, headers.get('content-length')], [200, '', '0']);
  const { good, workspaceId } = clients;
  const expected = {
    'x-keytally-key-id': good.id,
    'x-keytally-workspace-id': workspaceId,
    'x-keytally-customer-id': 'cus%20acm%C3%A9',
    'x-keytally-meter-id': good.meter,
    'x-keytally-status': 'VALID',
    'x-keytally-remaining-credits': '99999',
    'ratelimit-policy': `"key";q=${MOST_PER_SECOND};w=1`,
    'x-ratelimit-limit': String(MOST_PER_SECOND),
  };
  for (const [name, value] of Object.entries(expected)) assert.is(headers.get(name), value, name);
  assert.match(headers.get('ratelimit') ?? '', /^"key";r=\d{5};t=[01]$/);
  assert.match(headers.get('x-ratelimit-remaining') ?? '', /^\d{5}$/);
  assert.match(headers.get('x-ratelimit-reset') ?? '', /^\d{10}$/);
  assert.equal(await eventsOf(good.id), [['reads', 'GET /documents/1', 1_000_000]]);
});

test('identity headers are always there, empty without a value, whatever the end client or metadata say', async () => {
  const { key, id } = await clients.customers.newKey({ metadata: { hold: { id: 'hold_made' } } });
  const names = ['Customer-Id', 'Meter-Id', 'Remaining-Credits', 'Hold-Id'].map((name) => `X-Keytally-${name}`);
  const limits = ['RateLimit', 'RateLimit-Policy', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];
  const spoofed = Object.fromEntries([...names, ...limits].map((name) => [name, 'made']));
  for (const policy of ['-', 'usage=1,hold=60']) {
    const { status, headers } = await ask(`plain/${policy}/`, { headers: { ...bearer(key), ...spoofed } });
    assert.equal([status, headers.get('x-keytally-key-id')], [200, id]);
    for (const name of [...names, ...limits]) assert.is(headers.get(name), '', name);
  }
});

test('remaining credits go down to the credits or the spend cap, and are empty without a limit', async () => {
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

test('a refused key gets the status, code and reason of its refusal, and nginx 403 for each 402 and 429', async () => {
  const { slow: _, ...others } = refusals;
  const kept429 = { poor: 42911, capped: 42911, noRecord: 42911, spent: 42913 };
  for (const [name, [status, code]] of Object.entries(others)) {
    const headers = bearer(clients.keys[name as keyof typeof others]);
    const answer = await ask(`plain/${POLICY}/`, { headers });
    assert.equal([answer.status, answer.error?.code], [status, code], name);
    assert.is(answer.headers.get('www-authenticate'), status === 401 ? 'Bearer' : null, name);
    assert.is(answer.headers.get('retry-after') !== null, status === 429, name);
    assert.is(answer.headers.get('x-keytally-key-id'), null, name);
    assert.is(answer.headers.get('x-keytally-reason'), answer.error?.reason, name);
    const byNginx = await ask(`nginx/${POLICY}/`, { headers });
    assert.is(byNginx.status, status === 402 || status === 429 ? 403 : status, name);
    assert.is(byNginx.headers.get('x-keytally-refused-with'), String(status), name);
    const kept = (await ask(`plain/${POLICY},outOfCredits=429/`, { headers })).error;
    assert.equal([kept?.code, kept?.reason], [kept429[name as 'poor'] ?? code, answer.error?.reason], name);
  }
});

test('a limit per second says to come again in a second', async () => {
  const send = () => ask(`plain/${POLICY}/`, { headers: bearer(clients.keys.slow) });
  const { error, headers } = await clients.whileRateLimited(send, ({ status }) => status === 429);
  assert.equal([error?.code, error?.limit], [42910, 'rateLimitPerSecond']);
  // The instant is rounded up to a millisecond and now is rounded down: that may be 1,001 ms, and so two seconds.
  assert.match(headers.get('retry-after') ?? '', /^[12]$/);
});

test('a request that costs more than a limit allows at all is refused with 403, and not told to come again', async () => {
  const { status, error, headers } = await ask('plain/usage=1.000001/', { headers: bearer(clients.keys.spent) });
  assert.equal([status, error?.code, error?.limit, headers.get('retry-after')], [403, 40312, 'budget', null]);
});

test('headers tell the window of the tightest limit, and when to come again after it refused', async () => {
  // It slides, so that nothing comes back before an hour has passed.
  const limits = [{ name: 'hourly', unit: 'requests', limit: 1, per: 'hour' }];
  const { key } = await clients.customers.newKey({ rateLimitPerSecond: 100, limits });
  const answers = [];
  for (const dialect of ['plain', 'plain', 'nginx']) answers.push(await ask(`${dialect}/-/`, { headers: bearer(key) }));
  const told = answers.map(({ status, headers }) => `${status} ${headers.get('x-keytally-status')}`);
  assert.equal(told, ['200 VALID', '429 RATE_LIMITED', '403 RATE_LIMITED']);
  assert.equal([answers[1]!.error?.code, answers[1]!.error?.limit], [42912, 'hourly']);
  for (const { headers } of answers) {
    assert.is(headers.get('ratelimit-policy'), '"key";q=1;w=3600');
    assert.equal([headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining')], ['1', '0']);
    assert.match(headers.get('ratelimit') ?? '', /^"key";r=0;t=3[0-9]{3}$/);
  }
  assert.match(answers[1]!.headers.get('retry-after') ?? '', /^3[0-9]{3}$/);
});

test('a policy that holds debits nothing, a retry gets the same hold, and its id captures with the token of the gateway', async () => {
  const { key, meter } = await clients.customers.meteredKey('10');
  const headers = { ...bearer(key), 'X-Keytally-Idempotency-Key': `hold-${key}` };
  const policy = 'usage=4,name=tokens,hold=600,onExpiry=charge';
  const answers = [];
  for (let i = 0; i < 3; i++) answers.push(await ask(`plain/${policy}/complete`, { headers }));
  const [holdId = '', ...others] = new Set(answers.map((one) => one.headers.get('x-keytally-hold-id') ?? ''));
  assert.equal([answers[0]!.headers.get('x-keytally-remaining-credits'), others], ['6', []]);
  const { usedCredits, heldCredits, id } = await clients.customers.billing(meter);
  assert.equal([usedCredits, heldCredits], ['0', '4']);
  const { holds } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/holds`))).body;
  assert.equal([holds[0].id, holds[0].onExpiry, holds[0].usageName], [holdId, 'charge', 'tokens']);
  const url = `${world.verify.url}/api/v1/usage/capture`;
  const captured = await world.call('post', url, { holdId, usage: '1.5' }, { token: clients.token });
  assert.equal([captured.status, captured.body.billing.availableCredits], [200, '8.5']);
});
