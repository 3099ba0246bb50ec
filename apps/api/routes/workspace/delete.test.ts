import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { isGone } from '../../../../shared/stores/records.ts';
import { ALL_SHARDS, keyShard } from '../../../../shared/values/key-text.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../../../../tests/helpers/customers.ts';
import { untilOpen } from '../../../../tests/helpers/own-redis.ts';
import { makeRebuildWorld, type RebuildWorld } from '../../../../tests/helpers/rebuild-world.ts';
import { eventually, PATIENT, type Answer } from '../../../../tests/helpers/world.ts';

// This file has a Redis of its own, which restarts, comes back older, and is emptied.
const test = suite('deletion of workspaces');
const REFUSED = { status: 'INVALID', reason: 'NOT_FOUND' };
let own: RebuildWorld;
let world: RebuildWorld['world'];
// The workspace that stays.
let other: TestKey;
test.before(async () => {
  own = await makeRebuildWorld('deletions', { BUS: 'redis', ...PATIENT });
  ({ world } = own);
  await world.start('consumer');
  other = await own.customers.meteredKey('10');
});
test.after(() => own?.stop());

test('a deleted workspace is answered once more; from then on it is unknown, and its name is free', async () => {
  const { path, workspace } = await newWorkspace('Acme');
  const { body } = await must(200, world.call('delete', path));
  const { updatedAt } = body.workspace;
  assert.ok(updatedAt > workspace.updatedAt);
  assert.equal(body, { workspace: { ...workspace, updatedAt } });
  for (const [method, more, sent] of [
    ['delete', ''],
    ['get', ''],
    ['patch', '', { name: 'x' }],
    ['get', '/api-keys'],
    ['get', '/scopes'],
    ['post', '/scope', { name: 's', representation: 's' }],
  ] as const)
    assert.is(codeOf(await world.call(method, path + more, sent)), 40302, `${method} ${more}`);
  const listed = (await must(200, world.call('get', '/api/v1/workspace'))).body.workspaces;
  assert.not.ok(listed.some(({ id }: { id: string }) => id === workspace.id));
  await must(201, world.call('post', '/api/v1/workspace', { name: 'Acme' }));

  const [line] = (
    await must(200, world.call('get', `/api/v1/audit-log?resourceId=${workspace.id}`))
  ).body.auditLog.filter(({ operation }: { operation: string }) => operation.startsWith('DELETE'));
  assert.equal([line.resource, line.before, line.after], ['workspace', workspace, undefined]);
});

test('only a token with the permission, of the team and of the workspace deletes it; a limited one goes on elsewhere', async () => {
  const [first, second] = [await newWorkspace('first'), await newWorkspace('second')];
  const id = (one: typeof first) => one.workspace.id;
  const reader = await world.newToken(world.team.id, ['workspace:read']);
  const limited = await world.newToken(world.team.id, ['workspace:write', 'workspace:read'], [id(second)]);
  const both = await world.newToken(world.team.id, ['workspace:read', 'key:verify'], [id(first), id(second)]);
  const stranger = (await world.newTeam()).token;
  for (const [token, code] of [
    [null, 40101],
    [reader, 40301],
    [limited, 40302],
    [stranger, 40302],
  ] as const)
    assert.is(codeOf(await world.call('delete', first.path, undefined, { token })), code);
  const [lost, kept] = [await first.customers.newKey(), await second.customers.newKey()];
  const found = async ({ key }: { key: string }) =>
    (await first.customers.verify({ key }, { token: both })).body.status;
  await eventually('the token is in force', async () => (await found(lost)) === 'VALID');
  await must(200, world.call('delete', first.path));
  assert.equal([await found(lost), await found(kept)], ['INVALID', 'VALID']);
  await must(200, world.call('get', second.path, undefined, { token: both }));
  const wanted = { name: 't', permissions: ['key:verify'], workspaceIds: [id(first)] };
  assert.is(codeOf(await world.call('post', '/api/v1/access-token', wanted)), 40008);
});

test('its keys are refused by the very next verification, in every shard and on every server; their link tokens too', async () => {
  const { path, customers, workspace } = await newWorkspace('many');
  const keys = await Promise.all(Array.from({ length: 24 }, () => customers.newKey()));
  keys.push(await customers.meteredKey('10'), (await rotated(path, await customers.newKey())).key);
  assert.ok(new Set(keys.map(({ key }) => keyShard(key))).size > 5);
  // Twice: the second answer comes from a lookup that verify has kept.
  for (const { key } of [...keys, ...keys]) assert.is((await customers.verify({ key })).body.status, 'VALID');
  const link = { workspaceId: workspace.id, customerId: 'c' };
  const { token } = (await must(201, world.call('post', '/api/v1/link-token', link))).body.linkToken;
  await must(200, world.call('delete', path));
  for (const url of [world.verify!.url, world.api.url])
    for (const { key } of keys) assert.equal((await customers.verify({ key }, { url })).body, REFUSED);
  assert.is((await customers.verify({ key: other.key })).body.status, 'VALID');
  assert.equal((await world.call('get', `/api/v1/link-token/${token}`)).body, { valid: false });
  assert.is(codeOf(await world.call('delete', `/api/v1/link-token/${token}`)), 40406);
  assert.is(codeOf(await world.call('post', '/api/v1/link-token', link)), 40302);
  const keyPath = `${path}/api-key/${keys[0]!.id}`;
  for (const [method, at] of [
    ['get', ''],
    ['delete', ''],
    ['post', '/rotate'],
  ] as const)
    assert.is(codeOf(await world.call(method, keyPath + at)), 40302);
  assert.is(codeOf(await world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id })), 40302);
});

test('its books can be read as before, also after Redis was emptied, and no longer change', async () => {
  const { path, customers, workspace } = await newWorkspace('books');
  const { key, meter } = await customers.meteredKey('10');
  const { id } = await customers.billing(meter);
  await must(200, customers.verify({ key, billing: { usage: '2.5' } }));
  const named = { workspaceId: workspace.id, externalMeterId: meter };
  await must(200, world.call('post', '/api/v1/customer-billing/refill', { ...named, refill: 5 }));
  await must(200, world.call('delete', path));
  const at = `/api/v1/customer-billing/${id}`;
  const isReadable = async () => {
    const { billing } = (await must(200, world.call('get', at))).body;
    assert.equal([billing.totalCredits, billing.usedCredits], ['15', '2.5']);
    assert.is((await must(200, world.call('get', `${at}/ledger`))).body.ledger.length, 1);
    const { reconciliation } = await eventually('it is booked', async () => {
      const { body } = await world.call('get', `${at}/reconciliation`);
      return body.reconciliation?.status === 'EXACT' && body;
    });
    assert.is(reconciliation.bookedCredits, '2.5');
    const { data } = (await must(200, world.call('get', `/api/v1/usage/${id}`))).body;
    assert.equal([data.length, data[0].totalBillingUsage], [1, '2.5']);
  };
  await isReadable();
  const headers = { 'Idempotency-Key': 'books' };
  for (const refused of [
    world.call('patch', at, { allowOverages: true }),
    world.call('post', `${at}/adjustment`, { amount: '1', reason: 'r' }, { headers }),
  ])
    assert.is(codeOf(await refused), 40907);
  for (const refused of [
    world.call('post', '/api/v1/customer-billing/refill', { ...named, refill: 5 }),
    world.call('post', '/api/v1/customer-billing', { ...named, externalMeterId: 'another' }),
  ])
    assert.is(codeOf(await refused), 40302);
  await own.redis.admin.flushall();
  await everyShardIsOpen();
  await isReadable();
});

test('no Redis brings its keys back: one that restarts, one that comes back older, one that is emptied', async () => {
  const { path, customers } = await newWorkspace('gone');
  const key = await customers.meteredKey('10');
  const untilKeyRefused = () =>
    eventually('it is refused', async () => {
      const { status, body } = await customers.verify({ key: key.key });
      assert.is.not(body.status, 'VALID');
      return status === 200 && assert.equal(body, REFUSED) === undefined;
    });
  await own.redis.keep('before');
  await everyShardIsOpen();
  await must(200, world.call('delete', path));
  await untilKeyRefused();
  await own.redis.end('SIGTERM');
  await own.redis.start();
  await untilKeyRefused();
  await own.redis.comeBackAs('before');
  await untilKeyRefused();
  await own.redis.admin.flushall();
  await untilKeyRefused();
  await everyShardIsOpen();
  await own.untilValid(other);
});

test('what Redis has of it leaves page by page: its keys at once, a day later all else', async () => {
  const { path, customers, workspace } = await newWorkspace('leaving');
  await must(201, world.call('post', `${path}/scope`, { name: 's', representation: 'documents' }));
  await customers.meteredKey('10');
  // More than a page.
  await world.sql`
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled)
    select 'key_many' || i, ${world.team.id}, ${workspace.id}, i % 64, 'many', 'key', '', true from generate_series(1, 1200) i`;
  await world.sql`
    insert into key_texts (hash, team_id, key_id) select id, team_id, id from api_keys where id like 'key_many%'`;
  await world.sql`
    insert into changes (kind, entity_id, shard, created_at)
    select 'key', id, shard, now() - interval '1 minute' from api_keys where id like 'key_many%'`;
  const live = async () => {
    const names = await own.redis.admin.keys('{??}:k:key_many*');
    const records = names.length > 0 ? await own.redis.admin.mget(names) : [];
    return records.filter((record) => record && !isGone(record)).length;
  };
  await eventually('they are in Redis', async () => (await live()) === 1200);
  await must(200, world.call('delete', path));
  await eventually('all keys have left', async () => (await live()) === 0);
  const copies = () => own.redis.admin.exists(ALL_SHARDS.map((shard) => keyspace.workspace(shard, workspace.id)));
  assert.is(await copies(), 64, 'the tombstones that refuse late keys');
  const [{ done }] = await world.sql<[{ done: boolean }]>`
    update workspaces set keys_removed_at = keys_removed_at - interval '25 hours' where id = ${workspace.id}
    returning keys_removed_at is not null as done`;
  assert.ok(done);
  await eventually('its copies have left', async () => (await copies()) === 0);
});

test('a key that is made while its workspace is being deleted is refused and leaves like all others', async () => {
  const { path, workspace } = await newWorkspace('contested');
  const body = { name: 'k', workspaceId: workspace.id };
  const making = Array.from({ length: 30 }, () => world.call('post', '/api/v1/api-key', body));
  const [deleted, ...made] = await Promise.all([world.call('delete', path), ...making]);
  assert.is(deleted.status, 200, deleted.text);
  for (const answer of made) {
    if (answer.status === 403) continue;
    assert.is(answer.status, 201, answer.text);
    assert.equal((await own.customers.verify({ key: answer.body.apiKey.key })).body, REFUSED);
  }
  await eventually('its keys have left', async () => {
    const [row] = await world.sql`
      select keys_removed_to = coalesce((select max(id) from api_keys k where k.workspace_id = w.id), '') as done
      from workspaces w where id = ${workspace.id} and keys_removed_at is not null`;
    return row?.['done'] === true;
  });
});

test.run();

async function newWorkspace(name: string) {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name }))).body;
  const customers: Customers = makeCustomers(world, workspace.id);
  return { workspace, customers, path: `/api/v1/workspace/${workspace.id}` };
}

function everyShardIsOpen(): Promise<void> {
  return untilOpen(own.redis, world.api.url, world.verify!.url);
}

async function rotated(path: string, { id, key }: { id: string; key: string }) {
  await must(200, world.call('post', `${path}/api-key/${id}/rotate`, { graceSeconds: 600 }));
  return { key: { id, key } };
}

function codeOf(answer: Answer): number {
  return answer.body.error?.code;
}
