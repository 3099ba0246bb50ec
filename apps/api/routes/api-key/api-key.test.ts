import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../../shared/values/ids.ts';
import { keyShard } from '../../../../shared/values/key-text.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;
const test = suite('API keys');
test.before(async () => {
  world = await joinWorld();
});
test.before.each(async () => {
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body.workspace.id;
  for (const representation of ['invoices', 'orders']) await createScope(representation);
});
test.after(() => world?.stop());

const createScope = async (representation: string) =>
  (await world.call('post', `/api/v1/workspace/${workspaceId}/scope`, { name: 'scope', representation })).body.scope;
const create = (body: object = {}) => world.call('post', '/api/v1/api-key', { name: 'Robot', workspaceId, ...body });
const pathOf = (key: { id: string }) => `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;

test('a key created with a name alone has the defaults', async () => {
  const made = await create();
  assert.is(made.status, 201, made.text);
  const { key, ...rest } = made.body.apiKey;
  assert.match(key, /^key_[0-9A-Za-z]{34}$/);
  assert.match(rest.id, /^key_[0-9a-z]{26}$/);
  assert.match(rest.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(rest, {
    id: rest.id,
    name: 'Robot',
    maskedKey: `${key.slice(0, 8)}****${key.slice(-4)}`,
    prefix: 'key',
    scopes: [],
    enabled: true,
    deleted: false,
    createdAt: rest.createdAt,
    updatedAt: rest.createdAt,
  });
  const read = await world.call('get', pathOf(rest));
  assert.is(read.status, 200, read.text);
  assert.equal(read.body, { apiKey: rest });
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
  const { key, ...rest } = (await create({ ...given, scopes })).body.apiKey;
  assert.match(key, /^acme_live_/);
  assert.is(keyShard(key), meterShard(workspaceId, 'meter 7'));
  const listed = (await world.call('get', `/api/v1/workspace/${workspaceId}/scopes`)).body.scopes;
  assert.equal(rest, {
    ...given,
    id: rest.id,
    name: 'Robot',
    maskedKey: `${key.slice(0, 14)}****${key.slice(-4)}`,
    scopes: [
      { representation: 'orders', create: false, read: true, update: false, del: true, id: listed[1].id },
      { representation: 'invoices', create: true, read: false, update: true, del: false, id: listed[0].id },
    ],
    deleted: false,
    createdAt: rest.createdAt,
    updatedAt: rest.createdAt,
  });
  assert.equal((await world.call('get', pathOf(rest))).body, { apiKey: rest });
  const [stored] = await world.sql`
    select count(*) as count from api_keys k join key_texts t on t.key_id = k.id
    where k::text like ${`%${key}%`} or t::text like ${`%${key}%`}`;
  assert.is(stored!['count'], 0);
});

test('a key answers the billing record of its meter and its last use once they exist', async () => {
  const { apiKey } = (await create({ externalMeterId: 'm' })).body;
  const billingId = newId('bill');
  await world.sql`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
    values (${billingId}, ${world.team.id}, ${workspaceId}, 'm', ${meterShard(workspaceId, 'm')}, 0, false)`;
  await world.sql`insert into key_last_used (key_id, team_id, last_used_at) values (${apiKey.id}, ${world.team.id}, 1800000000000)`;
  const { apiKey: read } = (await world.call('get', pathOf(apiKey))).body;
  assert.is(read.billingId, billingId);
  assert.is(read.lastUsedAt, '2027-01-15T08:00:00.000Z');
});

test("a workspace's prefix and expiration are the defaults of its new keys", async () => {
  const defaults = { defaultKeyPrefix: 'acme', defaultExpiration: 60, defaultRateLimitPerSecond: 5 };
  await world.call('patch', `/api/v1/workspace/${workspaceId}`, { ...defaults, defaultAllowedIPs: ['10.0.0.1'] });
  const before = Date.now();
  const { apiKey } = (await create()).body;
  assert.is(apiKey.prefix, 'acme');
  assert.ok(apiKey.expiresAt >= before + 60_000 && apiKey.expiresAt <= Date.now() + 60_000);
  // Limits are looked up at each verification, so a new key does not copy them.
  assert.is(apiKey.rateLimitPerSecond, undefined);
  assert.is(apiKey.allowedIPs, undefined);
  const own = (await create({ prefix: 'own', expiresAt: null, allowedIPs: [] })).body.apiKey;
  assert.is(own.prefix, 'own');
  assert.is(own.expiresAt, undefined);
  assert.equal(own.allowedIPs, []);
});

test('a key is changed setting by setting, and null clears one', async () => {
  const expiresAt = Date.now() + 3_600_000;
  const given = { expiresAt, metadata: { a: 1 }, rateLimitPerSecond: 9, allowedIPs: ['::1'], externalMeterId: 'm' };
  const scopes = [{ representation: 'orders', read: true }];
  const { key: _text, ...made } = (await create({ ...given, scopes })).body.apiKey;
  const change = async (body: object) => (await must(200, world.call('patch', pathOf(made), body))).body.apiKey;
  const more = { name: 'Other', enabled: false, expiresAt: expiresAt + 1, metadata: {}, rateLimitPerSecond: 1 };
  const granted = [{ representation: 'invoices', del: true }, { representation: 'orders' }];
  const changed = await change({ ...more, allowedIPs: [], scopes: granted });
  assert.ok(changed.updatedAt > made.updatedAt);
  const { updatedAt } = changed;
  assert.equal(changed, { ...made, ...more, allowedIPs: [], scopes: changed.scopes, updatedAt });
  assert.equal(
    changed.scopes.map((scope: Record<string, unknown>) => [scope.representation, scope.read, scope.del]),
    [
      ['invoices', false, true],
      ['orders', false, false],
    ],
  );
  const none = { expiresAt: null, metadata: null, rateLimitPerSecond: null, allowedIPs: null, scopes: null };
  const cleared = await change(none);
  const left = Object.fromEntries(Object.entries(changed).filter(([name]) => !(name in none)));
  assert.equal(cleared, { ...left, scopes: [], updatedAt: cleared.updatedAt });
  assert.equal((await world.call('get', pathOf(made))).body.apiKey, cleared);
});

test('deletion is final, stays readable and may be repeated', async () => {
  const { key: _text, ...made } = (await create()).body.apiKey;
  const first = await world.call('delete', pathOf(made));
  assert.is(first.status, 200, first.text);
  const { apiKey } = first.body;
  assert.equal(apiKey, { ...made, deleted: true, updatedAt: apiKey.updatedAt });
  assert.equal((await world.call('delete', pathOf(made))).body, first.body);
  assert.equal((await world.call('get', pathOf(made))).body, first.body);
  assert.is((await world.call('patch', pathOf(made), { enabled: true })).body.error.code, 40903);
  assert.is((await world.call('post', `${pathOf(made)}/rotate`)).body.error.code, 40903);
});

test.run();
