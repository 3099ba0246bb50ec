import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { makeWorld, request, type Answer, type World } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

let world: World;
let workspaceId: string;
let customers: Customers;
const test = suite('verify');

test.before(async () => {
  world = await makeWorld(['verify']);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'verify' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
  for (const representation of ['users', 'posts']) {
    await must(
      201,
      world.call('post', `/api/v1/workspace/${workspaceId}/scope`, { name: representation, representation }),
    );
  }
});
test.after(() => world.stop());

test('a valid key is answered with all that is known of it', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '10.5' });
  const scopes = [{ representation: 'users', create: false, read: true, update: false, del: false }];
  const metadata = { plan: 'pro', nested: { n: 1 } };
  const expiresAt = Date.now() + 3_600_000;
  const key = await customers.newKey({
    externalMeterId,
    scopes,
    metadata,
    expiresAt,
    customerId: 'cus_1',
    rateLimitPerSecond: 10,
  });
  const body = {
    key: key.key,
    requestedScopes: scopes,
    route: '/users',
    billing: { usage: '0.25', usageName: 'tokens' },
  };
  for (const base of [world.verify!.url, world.api.url]) {
    const { status, body: answer } = await must(
      200,
      request(base + VERIFY_PATH, 'post', { token: world.team.token, body }),
    );
    assert.is(status, 200);
    assert.is(answer.status, 'VALID');
    assert.is(answer.reason, undefined);
    assert.is(answer.apiKeyId, key.id);
    assert.is(answer.customerId, 'cus_1');
    assert.is(answer.externalMeterId, externalMeterId);
    assert.is(answer.expiresAt, expiresAt);
    assert.equal(answer.metadata, metadata);
    assert.equal(answer.requestedScopes, scopes);
    assert.is(answer.scopes.length, 1);
    assert.match(answer.scopes[0].id, /^scope_/);
    assert.equal({ ...answer.scopes[0], id: undefined }, { ...scopes[0], id: undefined });
    assert.is(answer.billing.totalCredits, '10.5');
    assert.is(answer.billing.usedCredits, base === world.api.url ? '0.5' : '0.25');
    assert.is(answer.billing.allowOverages, false);
    assert.ok(answer.rateLimit.remaining === 9 || answer.rateLimit.remaining === 8);
    assert.ok(Math.abs(answer.rateLimit.resetAt - Date.now()) < 2_000);
  }
});

test('a key that is none, that nobody made, or that another team made is INVALID and nothing else is told', async () => {
  const other = await world.newTeam();
  const foreign = (await must(201, world.call('post', '/api/v1/workspace', { name: 'o' }, { token: other.token }))).body
    .workspace;
  const theirs = (
    await must(
      201,
      world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: foreign.id }, { token: other.token }),
    )
  ).body.apiKey;
  const nobodys = await verify({ key: makeKeyText('key', 7) });
  assert.equal(nobodys.body, { status: 'INVALID', reason: 'NOT_FOUND' });
  assert.equal((await verify({ key: theirs.key })).body, nobodys.body);
  assert.equal((await verify({ key: 'nonsense' })).body, { status: 'INVALID', reason: 'MALFORMED' });
  assert.equal((await verify({ key: '' })).body, { status: 'INVALID', reason: 'MALFORMED' });
});

test('a token limited to other workspaces finds the key INVALID', async () => {
  const { key } = await customers.newKey({});
  const limited = await world.newToken(world.team.id, ['key:verify'], [await world.newWorkspace(world.team.id)]);
  const allowed = await world.newToken(
    world.team.id,
    ['key:verify'],
    [await world.newWorkspace(world.team.id), workspaceId],
  );
  await settle(allowed);
  assert.equal((await verify({ key }, limited)).body, { status: 'INVALID', reason: 'NOT_FOUND' });
  assert.is((await verify({ key }, allowed)).body.status, 'VALID');
});

test('of several reasons to refuse, the first of the order is the answer', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '0' });
  // Wrong in every way at once: each step mends the first one.
  const key = await customers.newKey({
    externalMeterId,
    rateLimitPerSecond: 1,
    allowedIPs: ['192.0.2.1'],
    expiresAt: Date.now() + 1_500,
  });
  const path = `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
  const body = {
    key: key.key,
    ip: '198.51.100.1',
    requestedScopes: [{ representation: 'users', read: true }],
    billing: { usage: '1' },
  };
  const change = (fields: object) => must(200, world.call('patch', path, fields));
  await sleep(1_500);
  await change({ enabled: false });
  assert.is((await verify(body)).body.status, 'DISABLED');
  await change({ enabled: true });
  assert.is((await verify(body)).body.status, 'EXPIRED');
  await change({ expiresAt: null });
  assert.is((await verify(body)).body.reason, 'IP_NOT_ALLOWED');
  await change({ allowedIPs: ['192.0.2.1', '198.51.100.0/24'] });
  assert.is((await verify(body)).body.status, 'INVALID_SCOPES');
  await change({ scopes: [{ representation: 'users', read: true }] });
  assert.is((await verify(body)).body.status, 'USAGE_LIMITED');
  // A refused call took no rate token: the first that costs nothing is valid, and uses it up.
  assert.is((await verify({ ...body, billing: { usage: '0' } })).body.status, 'VALID');
  assert.is((await verify(body)).body.status, 'RATE_LIMITED');
  await must(200, world.call('delete', path));
  assert.is((await verify(body)).body.status, 'DELETED');
});

test('every requested flag must be held, and a representation asked for without flags as well', async () => {
  const { key } = await customers.newKey({ scopes: [{ representation: 'users', create: true, read: true }] });
  const ask = async (...requestedScopes: object[]) => (await verify({ key, requestedScopes })).body.status;
  assert.is(await ask({ representation: 'users', create: true, read: true }), 'VALID');
  assert.is(await ask({ representation: 'users' }), 'VALID');
  assert.is(await ask(), 'VALID');
  assert.is(await ask({ representation: 'users', update: true }), 'INVALID_SCOPES');
  assert.is(await ask({ representation: 'users', del: true, read: true }), 'INVALID_SCOPES');
  assert.is(await ask({ representation: 'posts' }), 'INVALID_SCOPES');
  assert.is(
    await ask({ representation: 'users', read: true }, { representation: 'posts', read: true }),
    'INVALID_SCOPES',
  );
});

test('the address comes from the body, or else from the connection', async () => {
  await must(200, world.call('patch', `/api/v1/workspace/${workspaceId}`, { defaultAllowedIPs: ['2001:db8::/32'] }));
  const inherits = await customers.newKey({});
  const open = await customers.newKey({ allowedIPs: [] });
  const local = await customers.newKey({ allowedIPs: ['127.0.0.0/8', '::1'] });
  assert.is((await verify({ key: inherits.key, ip: '2001:db8:1::1' })).body.status, 'VALID');
  assert.is((await verify({ key: inherits.key, ip: '2001:db9::1' })).body.reason, 'IP_NOT_ALLOWED');
  assert.is((await verify({ key: inherits.key })).body.reason, 'IP_NOT_ALLOWED');
  assert.is((await verify({ key: open.key, ip: '203.0.113.9' })).body.status, 'VALID');
  assert.is((await verify({ key: local.key })).body.status, 'VALID');
  const spoofed = await request(world.verify!.url + VERIFY_PATH, 'post', {
    token: world.team.token,
    body: { key: inherits.key },
    headers: { 'X-Forwarded-For': '2001:db8::1' },
  });
  assert.is(spoofed.body.reason, 'IP_NOT_ALLOWED');
  await must(200, world.call('patch', `/api/v1/workspace/${workspaceId}`, { defaultAllowedIPs: [] }));
});

test('2,000 concurrent calls on 1,000 credits give exactly 1,000 VALID', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '1000' });
  const keys = await Promise.all([1, 2, 3].map(() => customers.newKey({ externalMeterId })));
  // On a busy machine some are not decided in time; like any client, each is repeated until it is.
  const decide = async (i: number): Promise<Answer> => {
    const url = i % 2 ? world.api.url : world.verify!.url;
    const headers = { 'Idempotency-Key': `spend-${i}` };
    const body = { key: keys[i % 3]!.key, billing: { usage: '1' } };
    const answer = await customers.verify(body, { url, headers });
    if (answer.status !== 503) return answer;
    await sleep(100);
    return decide(i);
  };
  const answers = await Promise.all(Array.from({ length: 2000 }, (_, i) => decide(i)));
  const counts = countBy(answers);
  assert.equal(counts, { VALID: 1000, USAGE_LIMITED: 1000 });
  const record = await customers.billing(externalMeterId);
  assert.is(record.usedCredits, '1000');
});

test('credits are exact to the sixth place', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '1' });
  const { key } = await customers.newKey({ externalMeterId });
  for (let i = 0; i < 10; i++) assert.is((await verify({ key, billing: { usage: '0.1' } })).body.status, 'VALID');
  assert.is((await customers.billing(externalMeterId)).usedCredits, '1');
  assert.is((await verify({ key, billing: { usage: '0.000001' } })).body.status, 'USAGE_LIMITED');
  assert.is((await verify({ key, billing: { usage: '0' } })).body.status, 'VALID');

  const large = await customers.newMeter({ totalCredits: '9000000000' });
  const largeKey = await customers.newKey({ externalMeterId: large });
  assert.is((await verify({ key: largeKey.key, billing: { usage: '8999999999.999998' } })).body.status, 'VALID');
  assert.is((await verify({ key: largeKey.key, billing: { usage: '0.000003' } })).body.status, 'USAGE_LIMITED');
  assert.is((await verify({ key: largeKey.key, billing: { usage: '0.000002' } })).body.status, 'VALID');
  assert.is((await customers.billing(large)).usedCredits, '9000000000');
});

test('overage and spend cap decide how far a record goes', async () => {
  const spend = async (fields: object, ...usages: string[]) => {
    const { key } = await customers.newKey({ externalMeterId: await customers.newMeter(fields) });
    const outcomes = [];
    for (const usage of usages) {
      const { status, reason } = (await verify({ key, billing: { usage } })).body;
      outcomes.push(reason ?? status);
    }
    return outcomes;
  };
  const used = ['VALID', 'CREDITS_USED_UP'];
  const capped = ['VALID', 'SPEND_CAP_REACHED'];
  assert.equal(await spend({ totalCredits: '2' }, '2', '0.000001'), used);
  assert.equal(await spend({ totalCredits: '2', spendCap: '1' }, '1', '0.5'), capped);
  assert.equal(await spend({ totalCredits: '2', spendCap: '3' }, '2', '0.5'), used);
  assert.equal(await spend({ totalCredits: '0', allowOverages: true }, '9000000000', '0.000001'), used);
  assert.equal(await spend({ totalCredits: '0', allowOverages: true, spendCap: '5' }, '5', '0.5'), capped);
  assert.is((await spend({ totalCredits: '2', spendCap: '1' }, '1.5'))[0], 'SPEND_CAP_REACHED');
});

test('a metered key without its record passes at no cost, and the record may come later', async () => {
  const externalMeterId = `later-${Math.random()}`;
  const { key } = await customers.newKey({ externalMeterId });
  assert.is((await verify({ key })).body.status, 'VALID');
  const refused = await verify({ key, billing: { usage: '1' } });
  assert.equal([refused.body.status, refused.body.reason], ['USAGE_LIMITED', 'NO_BILLING_RECORD']);
  await customers.newMeter({ externalMeterId, totalCredits: '1' });
  assert.is((await verify({ key, billing: { usage: '1' } })).body.status, 'VALID');
});

test('a meter may have any name', async () => {
  for (const externalMeterId of ['-', '0', ' ', 'ü']) {
    await customers.newMeter({ externalMeterId, totalCredits: '2' });
    const { key } = await customers.newKey({ externalMeterId });
    for (const expected of ['1', '2']) {
      const answer = (await verify({ key, billing: { usage: '1' } })).body;
      assert.equal([answer.status, answer.billing.usedCredits], ['VALID', expected]);
    }
  }
});

test('a key without a meter has nothing to debit', async () => {
  const { key } = await customers.newKey({});
  const answer = (await verify({ key, billing: { usage: '5' } })).body;
  assert.is(answer.status, 'VALID');
  assert.is(answer.billing, undefined);
  assert.is(answer.rateLimit, undefined);
});

test('the rate limit over several seconds never passes limit + limit × t', async () => {
  const limit = 20;
  const { key } = await customers.newKey({ rateLimitPerSecond: limit });
  const started = performance.now();
  const elapsed = () => (performance.now() - started) / 1000;
  let passed = 0;
  const burst = async (calls: number) => {
    for (const answer of await Promise.all(Array.from({ length: calls }, () => verify({ key })))) {
      if (answer.body.status === 'VALID') passed += 1;
      else assert.is(answer.body.rateLimit.remaining, 0);
    }
    assert.ok(passed <= limit + limit * elapsed(), `${passed} passed in ${elapsed()} s`);
  };
  await burst(3 * limit);
  assert.ok(passed >= limit, `only ${passed} at once`);
  while (elapsed() < 3.2) {
    await burst(10);
    await sleep(15);
  }
  // Asked for all the time, the limit is also reached: busy moments of the machine may cost a little.
  assert.ok(passed >= limit + limit * (elapsed() - 0.5), `only ${passed} passed in ${elapsed()} s`);
});

test('a changed limit of the workspace holds for the next call, and a key may have its own', async () => {
  const workspace = (
    await must(201, world.call('post', '/api/v1/workspace', { name: 'limits', defaultRateLimitPerSecond: 1 }))
  ).body.workspace;
  const create = async (fields: object) =>
    (await must(201, world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id, ...fields }))).body
      .apiKey;
  const inherits = await create({});
  const own = await create({ rateLimitPerSecond: 100 });
  assert.equal(await statusesOf(inherits.key, 2), ['VALID', 'RATE_LIMITED']);
  assert.is((await verify({ key: own.key })).body.rateLimit.remaining, 99);
  await must(200, world.call('patch', `/api/v1/workspace/${workspace.id}`, { defaultRateLimitPerSecond: null }));
  assert.equal(await statusesOf(inherits.key, 3), ['VALID', 'VALID', 'VALID']);
});

test('an Idempotency-Key debits once, and another cost under it is refused', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '10' });
  const { key } = await customers.newKey({ externalMeterId, rateLimitPerSecond: 5 });
  const once = (body: object, base = world.verify!.url) =>
    request(base + VERIFY_PATH, 'post', {
      token: world.team.token,
      body: { key, ...body },
      headers: { 'Idempotency-Key': 'once' },
    });
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => once({ billing: { usage: '2' } }, i % 2 ? world.api.url : undefined)),
  );
  for (const answer of answers) {
    assert.is(answer.body.status, 'VALID');
    assert.equal(answer.body.rateLimit, answers[0]!.body.rateLimit);
  }
  assert.is((await customers.billing(externalMeterId)).usedCredits, '2');
  const otherCost = await once({ billing: { usage: '3' } });
  assert.equal([otherCost.status, otherCost.body.error.code], [409, 40904]);
  const otherName = await once({ billing: { usage: '2', usageName: 'other' } });
  assert.is(otherName.status, 409);
  assert.is((await verify({ key, billing: { usage: '2' } })).body.billing.usedCredits, '4');
  const scoped = await once({ billing: { usage: '2' }, requestedScopes: [{ representation: 'users', read: true }] });
  assert.is(scoped.body.status, 'INVALID_SCOPES');
});

test('bad input is a clear error, never a status', async () => {
  const { key } = await customers.newKey({});
  for (const [body, path] of [
    [{}, '/key'],
    [{ key: 1 }, '/key'],
    [{ key, billing: { usage: '-1' } }, '/billing/usage'],
    [{ key, billing: { usage: '0.0000001' } }, '/billing/usage'],
    [{ key, billing: { usage: 'NaN' } }, '/billing/usage'],
    [{ key, billing: { usage: '9000000000.000001' } }, '/billing/usage'],
    [{ key, billing: { usage: 1 } }, '/billing/usage'],
    [{ key, billing: { usagename: 'x' } }, '/billing/usagename'],
    [{ key, ip: 'here' }, '/ip'],
    [{ key, requestedScopes: [{ read: true }] }, '/requestedScopes/0/representation'],
    [{ key, colour: 'red' }, '/colour'],
  ] as const) {
    const answer = await verify(body);
    assert.is(answer.status, 400, answer.text);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === path),
      answer.text,
    );
    assert.not.ok(answer.text.includes(key));
  }
  const url = world.verify!.url + VERIFY_PATH;
  const { token } = world.team;
  assert.is((await request(url, 'post', { token, raw: '{"key":' })).body.error.code, 40002);
  assert.is((await request(url, 'post', { token, raw: 'x', headers: { 'Content-Type': 'text/plain' } })).status, 415);
  assert.is((await request(url, 'post', { token, raw: JSON.stringify({ key: 'x'.repeat(17_000) }) })).status, 413);
  assert.is((await request(url, 'get', { token })).headers.get('allow'), 'POST');
  assert.is((await request(world.verify!.url + '/nowhere', 'get', { token })).body.error.code, 40401);
});

test('more calls than may wait are a 503 at once that cost nothing, and the rest is decided', async () => {
  const narrow = await world.start('verify', { VERIFY_MAX_WAITING: '2' });
  const { key, meter } = await customers.meteredKey('1000');
  const url = narrow.url;
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => verify({ key, billing: { usage: '1' } }, world.team.token, url)),
  );
  const decided = answers.filter((answer) => answer.body.status === 'VALID');
  const refused = answers.filter((answer) => answer.body.error?.code === 50308);
  assert.is(decided.length + refused.length, 200, answers.map((answer) => answer.text).join('\n'));
  assert.ok(decided.length > 0 && refused.length > 0, `${decided.length} decided`);
  assert.is(refused[0]!.headers.get('retry-after'), '1');
  assert.is((await customers.billing(meter)).usedCredits, String(decided.length));
});

test('only a token that may verify gets an answer', async () => {
  const { key } = await customers.newKey({});
  assert.is((await verify({ key }, null)).body.error.code, 40101);
  assert.is((await verify({ key }, 'kt_nonsense')).body.error.code, 40102);
  assert.is((await verify({ key }, makeKeyText('kt', 3))).body.error.code, 40102);
  assert.is((await verify({ key }, key)).body.error.code, 40102);
  const reader = await world.newToken(world.team.id, ['key:read', 'key:write']);
  await settle(reader);
  assert.is((await verify({ key }, reader)).body.error.code, 40301);
});

test('the probes and the OpenAPI document need no token', async () => {
  for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json']) {
    const answer = await request(world.verify!.url + path, 'get', {});
    assert.is(answer.status, 200, `${path} ${answer.text}`);
  }
  assert.match(
    (await request(`${world.verify!.url}/metrics`, 'get', {})).text,
    /keytally_verifications_total\{.*status="VALID".*\} \d+/,
  );
});

function verify(body: object, token: string | null = world.team.token, url = world.verify!.url): Promise<Answer> {
  return customers.verify(body, { token, url });
}

async function statusesOf(key: string, calls: number): Promise<string[]> {
  const statuses = [];
  for (let i = 0; i < calls; i++) statuses.push((await verify({ key })).body.status as string);
  return statuses;
}

/** Waits until a token that was put into Postgres by hand is known in Redis. */
async function settle(token: string): Promise<void> {
  for (let i = 0; i < 200 && (await verify({ key: '' }, token)).status === 401; i++) await sleep(20);
}

function countBy(answers: Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { body } of answers) counts[body.status] = (counts[body.status] ?? 0) + 1;
  return counts;
}

test.run();
