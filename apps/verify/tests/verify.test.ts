import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { inTime } from '../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, request, type Answer, type World } from '../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;
let customers: Customers;

const test = suite('verify');
test.before(async () => {
  world = await makeWorld(['verify']);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'verify' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
  for (const representation of ['users', 'posts']) {
    const scope = { name: representation, representation };
    await must(201, world.call('post', `/api/v1/workspace/${workspaceId}/scope`, scope));
  }
});
test.after(() => world?.stop());

test('the answer to a valid key holds everything about it', async () => {
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
    const before = Date.now();
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
    assert.ok(answer.rateLimit.resetAt > before - 2_000 && answer.rateLimit.resetAt < Date.now() + 2_000);
  }
});

test('text that is no key, an unknown key and a key of another team are INVALID, and the answer says no more', async () => {
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

test('to a token of other workspaces the key is INVALID', async () => {
  const { key } = await customers.newKey({});
  const limited = await world.newToken(world.team.id, ['key:verify'], [await world.newWorkspace(world.team.id)]);
  const allowed = await world.newToken(
    world.team.id,
    ['key:verify'],
    [await world.newWorkspace(world.team.id), workspaceId],
  );
  for (const token of [limited, allowed]) await settle(token);
  assert.equal((await verify({ key }, limited)).body, { status: 'INVALID', reason: 'NOT_FOUND' });
  assert.is((await verify({ key }, allowed)).body.status, 'VALID');
});

test('of several reasons to refuse, the first one in the documented order is the answer', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '0' });
  // The key is wrong in every way at once; each step mends the first one.
  const fields = { externalMeterId, rateLimitPerSecond: 1, allowedIPs: ['192.0.2.1'] };
  const { key, expiresAt } = await inTime(1_500, async (until) => ({
    key: await customers.newKey({ ...fields, expiresAt: until }),
    expiresAt: until,
  }));
  const path = `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
  const body = {
    key: key.key,
    ip: '198.51.100.1',
    requestedScopes: [{ representation: 'users', read: true }],
    billing: { usage: '1' },
  };
  const change = (fields: object) => must(200, world.call('patch', path, fields));
  await sleep(expiresAt - Date.now());
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
  // The refused calls took no rate token: the first call that costs nothing is VALID, and uses it up.
  const free = { ...body, billing: { usage: '0' } };
  assert.is((await verify(free)).body.status, 'VALID');
  await eventually('it is used up', async () => {
    await verify(free);
    return (await verify(body)).body.status === 'RATE_LIMITED';
  });
  await must(200, world.call('delete', path));
  assert.is((await verify(body)).body.status, 'DELETED');
});

test('a key must have every requested flag, and a representation that is requested without flags', async () => {
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

test('a scope grants its own representation alone, and nothing that is named like its id', async () => {
  const path = `/api/v1/workspace/${workspaceId}/scope`;
  const { scope } = (await must(201, world.call('post', path, { name: 'a', representation: 'a' }))).body;
  await must(201, world.call('post', path, { name: 'b', representation: scope.id }));
  const { key } = await customers.newKey({ scopes: [{ representation: 'a', read: true }] });
  const ask = async (representation: string) =>
    (await verify({ key, requestedScopes: [{ representation, read: true }] })).body.status;
  assert.is(await ask('a'), 'VALID');
  assert.is(await ask(scope.id), 'INVALID_SCOPES');
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

test.run();

function verify(body: object, token: string | null = world.team.token, url = world.verify!.url): Promise<Answer> {
  return customers.verify(body, { token, url });
}

// The test wrote the token into Postgres itself: this waits until the sweeper has copied it to Redis.
async function settle(token: string): Promise<void> {
  await eventually('it is in force', async () => (await verify({ key: '' }, token)).status !== 401);
}
