import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

// Once a change is answered, it holds for the very next verification.

let world: World;
let workspacePath: string;
const test = suite('changes of API keys in force');
test.before(async () => {
  world = await makeWorld();
});
test.before.each(async () => {
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body;
  workspacePath = `/api/v1/workspace/${workspace.id}`;
});
test.after(() => world?.stop());

async function succeed(method: string, path: string, body?: object) {
  const answer = await world.call(method, path, body);
  assert.ok(answer.status < 300, `${method} ${path} ${answer.text}`);
  return answer.body;
}
const createScope = async (representation: string) =>
  (await succeed('post', `${workspacePath}/scope`, { name: 'scope', representation })).scope;
const create = async (body: object = {}) => {
  const workspaceId = workspacePath.split('/').at(-1);
  const { apiKey } = await succeed('post', '/api/v1/api-key', { name: 'Robot', workspaceId, ...body });
  const change = (changes: object) => succeed('patch', `${workspacePath}/api-key/${apiKey.id}`, changes);
  const verify = async (...wanted: string[]) => {
    const requestedScopes = wanted.map((representation) => ({ representation, read: true }));
    return succeed('post', '/api/v1/api-key/verify', { key: apiKey.key, requestedScopes, ip: '10.0.0.1' });
  };
  return { ...apiKey, change, verify, status: async (...wanted: string[]) => (await verify(...wanted)).status };
};

test('every new key is VALID at once', async () => {
  const keys = await Promise.all(Array.from({ length: 20 }, () => create()));
  for (const status of await Promise.all(keys.map((key) => key.status()))) assert.is(status, 'VALID');
});

test('a verification answers what the key holds', async () => {
  const { id } = await createScope('orders');
  const given = {
    customerId: 'c',
    externalMeterId: 'm',
    metadata: { a_b: ['"\u001f'] },
    expiresAt: Date.now() + 60_000,
  };
  const key = await create({ ...given, scopes: [{ representation: 'orders', read: true }] });
  const answer = await key.verify('orders');
  assert.equal(
    { ...answer, requestedScopes: undefined },
    {
      ...given,
      status: 'VALID',
      apiKeyId: key.id,
      scopes: [{ representation: 'orders', create: false, read: true, update: false, del: false, id }],
      requestedScopes: undefined,
    },
  );
});

test('disabling, enabling and deleting a key hold at once', async () => {
  const key = await create();
  for (let i = 0; i < 5; i++) {
    await key.change({ enabled: false });
    assert.is(await key.status(), 'DISABLED');
    await key.change({ enabled: true });
    assert.is(await key.status(), 'VALID');
  }
  await succeed('delete', `${workspacePath}/api-key/${key.id}`);
  assert.is(await key.status(), 'DELETED');
  assert.is(await (await create({ enabled: false })).status(), 'DISABLED');
});

test('setting, passing and clearing an expiry hold at once', async () => {
  const key = await create();
  const expiresAt = await inTime(1_500, async (until) => {
    await key.change({ expiresAt: until });
    assert.is(await key.status(), 'VALID');
    return until;
  });
  await sleep(expiresAt + 50 - Date.now());
  assert.is(await key.status(), 'EXPIRED');
  await key.change({ expiresAt: null });
  assert.is(await key.status(), 'VALID');
});

test('granting, removing, renaming and deleting scopes hold at once', async () => {
  const orders = await createScope('orders');
  await createScope('invoices');
  const key = await create({ scopes: [{ representation: 'orders', read: true }] });
  assert.is(await key.status('orders'), 'VALID');
  assert.is(await key.status('orders', 'invoices'), 'INVALID_SCOPES');
  const both = [
    { representation: 'orders', read: true },
    { representation: 'invoices', read: true },
  ];
  await key.change({ scopes: both });
  assert.is(await key.status('orders', 'invoices'), 'VALID');

  await key.change({ scopes: [both[1]!] });
  await succeed('patch', `${workspacePath}/scope/${orders.id}`, { representation: 'purchases' });
  await key.change({ scopes: [{ representation: 'purchases', read: true }, both[1]!] });
  assert.is(await key.status('orders'), 'INVALID_SCOPES');
  assert.is(await key.status('purchases', 'invoices'), 'VALID');

  await succeed('delete', `${workspacePath}/scope/${orders.id}`);
  assert.is(await key.status('purchases'), 'INVALID_SCOPES');
  const { scopes } = await key.verify('invoices');
  assert.equal(
    scopes.map((scope: { representation: string }) => scope.representation),
    ['invoices'],
  );
  const { apiKey } = await succeed('get', `${workspacePath}/api-key/${key.id}`);
  assert.equal(apiKey.scopes, scopes);

  // A new scope with the representation of a deleted one is another scope; no key has it yet.
  await createScope('purchases');
  assert.is(await key.status('purchases'), 'INVALID_SCOPES');
  await key.change({ scopes: null });
  assert.is(await key.status('invoices'), 'INVALID_SCOPES');
});

test("a key's own rate limit holds at once, and so does the return to the workspace's", async () => {
  const key = await create();
  assert.is((await key.verify()).rateLimit, undefined);
  await key.change({ rateLimitPerSecond: 1 });
  assert.is((await key.verify()).rateLimit.remaining, 0);
  await succeed('patch', workspacePath, { defaultRateLimitPerSecond: 1000 });
  assert.ok((await key.verify()).rateLimit.remaining <= 1);
  await key.change({ rateLimitPerSecond: null });
  assert.ok((await key.verify()).rateLimit.remaining > 1);
});

test("a key's own allow list holds at once, also an empty one, and so does the return to the workspace's", async () => {
  const key = await create();
  await succeed('patch', workspacePath, { defaultAllowedIPs: ['192.168.0.0/16'] });
  assert.equal([await key.status(), (await key.verify()).reason], ['INVALID', 'IP_NOT_ALLOWED']);
  await key.change({ allowedIPs: ['10.0.0.0/8'] });
  assert.is(await key.status(), 'VALID');
  await key.change({ allowedIPs: ['10.0.0.2'] });
  assert.is(await key.status(), 'INVALID');
  await key.change({ allowedIPs: [] });
  assert.is(await key.status(), 'VALID');
  await key.change({ allowedIPs: null });
  assert.is(await key.status(), 'INVALID');
});

test('changing and clearing metadata hold at once', async () => {
  const key = await create({ metadata: { plan: 'free' } });
  await key.change({ metadata: { plan: 'paid' } });
  assert.equal((await key.verify()).metadata, { plan: 'paid' });
  await key.change({ metadata: null });
  assert.is((await key.verify()).metadata, undefined);
});

test('after concurrent changes, what Postgres has is in force', async () => {
  const key = await create();
  await Promise.all(Array.from({ length: 12 }, (_, i) => key.change({ metadata: { i }, enabled: i % 2 === 0 })));
  const { apiKey } = await succeed('get', `${workspacePath}/api-key/${key.id}`);
  const { status, metadata } = await key.verify();
  assert.equal([status, metadata], [apiKey.enabled ? 'VALID' : 'DISABLED', apiKey.metadata]);
});

test.run();
