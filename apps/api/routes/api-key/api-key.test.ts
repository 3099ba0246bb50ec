import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../../../shared/values/key-text.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import { callsOf, columns, joinWorld, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

const world = await joinWorld();
const calls = callsOf(world);
const workspaceId = await newWorkspace(world, { name: 'Acme' });
for (const representation of ['invoices', 'orders'])
  await calls.make(`/api/v1/workspace/${workspaceId}/scope`, { name: 'scope', representation });

const asked = (body: object) => world.call('post', '/api/v1/api-key', { name: 'Robot', workspaceId, ...body });
const create = async (body: object = {}) => (await must(201, asked(body))).body.apiKey;
const pathOf = (key: { id: string }) => `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
const read = (key: { id: string }) => calls.read(pathOf(key));

test('a key created with a name alone has the defaults', async () => {
  const { key, ...rest } = await create();
  assert.match(key, /^key_[0-9A-Za-z]{34}$/);
  assert.match(rest.id, /^key_[0-9a-z]{26}$/);
  const maskedKey = `${key.slice(0, 8)}****${key.slice(-4)}`;
  const { id, createdAt } = rest;
  const defaults = { prefix: 'key', scopes: [], enabled: true, deleted: false };
  assert.equal(rest, { id, name: 'Robot', maskedKey, ...defaults, createdAt, updatedAt: createdAt });
  assert.equal(await read(rest), rest);
});

test('a key created with every setting answers every setting, and its secret is stored nowhere', async () => {
  const given = {
    enabled: false,
    customerId: 'customer 7',
    prefix: 'acme_live',
    expiresAt: Date.now() + 3_600_000,
    externalMeterId: 'meter 7',
    metadata: { snake_case: [1, { deep: null }], text: 'a\u0000\u001fb' },
    rateLimitPerSecond: 9,
    allowedIPs: ['10.0.0.0/8', '::1'],
  };
  const scopes = [
    { representation: 'orders', read: true, del: true, id: 'ignored' },
    { representation: 'invoices', create: true, update: true },
  ];
  const { key, ...rest } = await create({ ...given, scopes });
  assert.match(key, /^acme_live_/);
  assert.is(keyShard(key), meterShard(workspaceId, 'meter 7'));
  const listed = await calls.read(`/api/v1/workspace/${workspaceId}/scopes`);
  const maskedKey = `${key.slice(0, 14)}****${key.slice(-4)}`;
  const has = [
    { representation: 'orders', create: false, read: true, update: false, del: true, id: listed[1].id },
    { representation: 'invoices', create: true, read: false, update: true, del: false, id: listed[0].id },
  ];
  const { id, createdAt } = rest;
  const made = { ...given, id, name: 'Robot', maskedKey, scopes: has, deleted: false, createdAt, updatedAt: createdAt };
  assert.equal(rest, made);
  assert.equal(await read(rest), rest);
  const stored = await world.sql`
    select from api_keys k join key_texts t on t.key_id = k.id
    where k::text like ${`%${key}%`} or t::text like ${`%${key}%`}`;
  assert.is(stored.length, 0);
});

test('a key answers the billing record of its meter and its last use once they exist', async () => {
  const key = await create({ externalMeterId: 'm' });
  const { id: billingId } = await calls.make('/api/v1/customer-billing', { workspaceId, externalMeterId: 'm' });
  await world.sql`insert into key_last_used (key_id, team_id, last_used_at) values (${key.id}, ${world.team.id}, 1800000000000)`;
  const { billingId: told, lastUsedAt } = await read(key);
  assert.equal([told, lastUsedAt], [billingId, '2027-01-15T08:00:00.000Z']);
});

test("a workspace's prefix and expiration are the defaults of its new keys", async () => {
  const defaults = { defaultKeyPrefix: 'acme', defaultExpiration: 60, defaultRateLimitPerSecond: 5 };
  const other = { workspaceId: await newWorkspace(world, defaults) };
  const before = Date.now();
  const { prefix, expiresAt, rateLimitPerSecond } = await create(other);
  // Limits are looked up at each verification, so a new key does not copy them.
  assert.equal([prefix, rateLimitPerSecond], ['acme', undefined]);
  assert.ok(expiresAt >= before + 60_000 && expiresAt <= Date.now() + 60_000);
  const own = await create({ ...other, prefix: 'own', expiresAt: null, allowedIPs: [] });
  assert.equal([own.prefix, own.expiresAt, own.allowedIPs], ['own', undefined, []]);
});

test('a key is changed setting by setting, and null clears one', async () => {
  const expiresAt = Date.now() + 3_600_000;
  const given = { expiresAt, metadata: { a: 1 }, rateLimitPerSecond: 9, allowedIPs: ['::1'], externalMeterId: 'm' };
  const { key: _, ...made } = await create({ ...given, scopes: [{ representation: 'orders', read: true }] });
  const change = (body: object) => calls.change(pathOf(made), body);
  const more = { name: 'Other', enabled: false, expiresAt: expiresAt + 1, metadata: {}, rateLimitPerSecond: 1 };
  const granted = [{ representation: 'invoices', del: true }, { representation: 'orders' }];
  const changed = await change({ ...more, allowedIPs: [], scopes: granted });
  const { updatedAt, scopes } = changed;
  assert.ok(updatedAt > made.updatedAt);
  assert.equal(changed, { ...made, ...more, allowedIPs: [], scopes, updatedAt });
  const has = columns(scopes, 'representation', 'read', 'del').map((one) => one.join(' '));
  assert.equal(has, ['invoices false true', 'orders false false']);
  const none = { expiresAt: null, metadata: null, rateLimitPerSecond: null, allowedIPs: null, scopes: null };
  const cleared = await change(none);
  const left = Object.fromEntries(Object.entries(changed).filter(([name]) => !(name in none)));
  assert.equal(cleared, { ...left, scopes: [], updatedAt: cleared.updatedAt });
  assert.equal(await read(made), cleared);
});

test('deletion is final, stays readable and may be repeated', async () => {
  const { key: _, ...made } = await create();
  const remove = () => calls.remove(pathOf(made));
  const removed = await remove();
  assert.equal(removed, { ...made, deleted: true, updatedAt: removed.updatedAt });
  assert.equal(await remove(), removed);
  assert.equal(await read(made), removed);
  await refused(40903, calls.ask('patch', pathOf(made), { enabled: true }));
  await refused(40903, calls.ask('post', `${pathOf(made)}/rotate`));
});

test('a wrong setting is refused by name and stores nothing, at creation and in a change', async () => {
  const { key: _, ...made } = await create();
  const known = { representation: 'orders', read: true };
  const past = /must lie in the future, in Unix milliseconds/;
  for (const [wrong, code, field, words] of [
    [{ scopes: [known, { ...known, del: true }] }, 40001, '/scopes/1/representation', /./],
    [{ scopes: [known, { representation: 'unknown:one' }] }, 40003, '/scopes/1/representation', /unknown:one/],
    [{ expiresAt: Date.now() - 1 }, 40004, '/expiresAt', past],
    [{ expiresAt: Math.floor(Date.now() / 1000) + 3600 }, 40004, '/expiresAt', /seconds/],
    [{ metadata: { a: [{ constructor: 1 }] } }, 40001, '/metadata', /./],
  ] as const)
    for (const asking of [asked, (body: object) => calls.ask('patch', pathOf(made), body)]) {
      const { message, details } = await refused(code, asking({ name: 'none', ...wrong }));
      assert.is(details[0].path, field);
      assert.match(message + details[0].message, words);
    }
  // What a key keeps for good.
  for (const name of ['customerId', 'prefix', 'workspaceId'])
    await must(400, world.call('patch', pathOf(made), { [name]: 'p' }));
  assert.is((await world.sql`select from api_keys where workspace_id = ${workspaceId} and name = 'none'`).length, 0);
  const elsewhere = pathOf(made).replace(workspaceId, await world.newWorkspace(world.team.id));
  for (const method of ['get', 'delete'])
    await refused(40403, calls.ask(method, elsewhere), 'it is a key of its workspace alone');
});

const daily = { name: 'daily', unit: 'requests', limit: 10, per: 'day', timezone: 'Europe/Berlin' };
const spend = { name: 'spend', unit: 'credits', limit: '25.5', per: 'hour', usageName: 'tokens', shadow: true };
const inDays = { ...daily, name: 'ten days', per: '10 days' };
const yearly = { ...daily, name: 'yearly', per: 'year' };
const soon = { ...spend, name: 'soon', per: '5 minutes' };
const wrongWindows = ['1 minute', '60 seconds', '24 hours', '32 days', '2 weeks', '2 years', '05 days', '5minutes', 5];
const imported = async (key: string, limits: readonly object[]) => {
  const keys = [{ name: 'k', workspaceId, key: `imported-${key}-0123456789`, allowWeak: true, limits }];
  return (await calls.post('/api/v1/api-key/import', { keys }))[0];
};

test('wrong limits are refused with a 400 that names the field, wherever they are set', async () => {
  for (const [limits, path] of [
    [[daily, { ...spend, name: 'daily' }], '/1/name'],
    [[{ ...daily, name: 'rateLimitPerSecond' }], '/0/name'],
    [[{ ...daily, limit: '10' }], '/0/limit'],
    [[{ ...daily, limit: 0 }], '/0/limit'],
    [[{ ...spend, limit: 25 }], '/0/limit'],
    [[{ ...spend, limit: '0' }], '/0/limit'],
    [[{ ...daily, timezone: 'Europe/Atlantis' }], '/0/timezone'],
    [[{ ...daily, timezone: '+05:45' }], '/0/timezone'],
    [[{ ...spend, timezone: 'UTC' }], '/0/timezone'],
    [[{ ...spend, per: '5 minutes', timezone: 'UTC' }], '/0/timezone'],
    ...wrongWindows.map((per) => [[{ ...daily, per }], '/0/per'] as const),
  ] as const) {
    for (const [field, answer] of [
      ['/limits', world.call('post', '/api/v1/api-key', { name: 'k', workspaceId, limits })],
      ['/defaultLimits', world.call('post', '/api/v1/workspace', { name: 'w', defaultLimits: limits })],
      ['/limits', world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId: 'm', limits })],
    ] as const)
      assert.is((await refused(40001, answer)).details[0].path, field + path);
    assert.is((await imported('wrong', limits)).error.details[0].path, `/limits${path}`);
  }
});

test('limits and alerts are answered as they were set, changed by PATCH, and cleared by null', async () => {
  const limits = [inDays, spend, yearly, soon];
  const alerts = [
    { name: 'low', when: { usedPercent: 80 } },
    { name: 'left', when: { available: '10.5' } },
  ];
  const [key, workspace, record] = ['/api/v1/api-key', '/api/v1/workspace', '/api/v1/customer-billing'] as const;
  for (const [path, name, body, set, at] of [
    [key, 'limits', { name: 'k', workspaceId }, limits, `${workspace}/${workspaceId}/api-key`],
    [workspace, 'defaultLimits', { name: 'w' }, limits, workspace],
    [workspace, 'defaultAlerts', { name: 'w' }, alerts, workspace],
    [record, 'limits', { workspaceId, externalMeterId: 'l' }, limits, record],
    [record, 'alerts', { workspaceId, externalMeterId: 'a' }, alerts, record],
  ] as const) {
    const made = await calls.make(path, { ...body, [name]: set });
    assert.equal(made[name], set);
    const change = (to: object | null) => calls.change(`${at}/${made.id}`, { [name]: to });
    assert.equal((await change([set[1]]))[name], [set[1]]);
    assert.equal((await calls.read(`${at}/${made.id}`))[name], [set[1]]);
    assert.is((await change(null))[name], undefined, `${path} ${name}`);
    const auditLog = await calls.read(`/api/v1/audit-log?resourceId=${made.id}`);
    assert.equal(auditLog[1].before[name], set);
  }
  assert.equal((await imported('right', [daily])).apiKey.limits, [daily], 'an imported key has those of its creation');
});
