import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../../../shared/values/key-text.ts';
import { makeBackground } from '../../tests/helpers/background.ts';
import { callsOf, column, joinWorld, makeCustomers, must, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/workspace';
const REFUSED = { status: 'INVALID', reason: 'NOT_FOUND' };
const world = await joinWorld();
const { ask, read, make, post, remove } = callsOf(world);
const background = makeBackground(world);

test('a workspace is created, read, listed and changed', async () => {
  const { id: teamId, token } = await world.newTeam();
  const by = callsOf(world, token);
  const workspace = await by.make(PATH, { name: 'Acme' });
  const { id, createdAt } = workspace;
  assert.match(id, /^ws_[0-9a-z]{26}$/);
  const fields = { id, name: 'Acme', teamId, defaultAllowedIPs: [], keepClientAddresses: true, timezone: 'UTC' };
  assert.equal(workspace, { ...fields, createdAt, updatedAt: createdAt });

  const path = `${PATH}/${id}`;
  assert.equal(await by.read(path), workspace);
  const changes = { defaultKeyPrefix: 'acme', defaultAllowedIPs: ['10.0.0.0/8'], timezone: 'Asia/Kathmandu' };
  const more = { defaultRateLimitPerSecond: 5, defaultExpiration: 60 };
  const changed = await by.change(path, { ...changes, ...more });
  assert.equal(changed, { ...workspace, ...changes, ...more, updatedAt: changed.updatedAt });
  const cleared = await by.change(path, { defaultKeyPrefix: null, defaultAllowedIPs: null });
  const { defaultKeyPrefix: _, ...kept } = changed;
  assert.equal(cleared, { ...kept, defaultAllowedIPs: [], updatedAt: cleared.updatedAt });
  assert.equal(await by.read(PATH), [cleared]);
  const wrong = {
    '/timezone': { timezone: '+02:00' },
    '/defaultAlerts/0/when': { defaultAlerts: [{ name: 'a', when: {} }] },
  };
  for (const [field, more] of Object.entries(wrong))
    for (const asked of [by.ask('patch', path, more), by.ask('post', PATH, { name: 'w', ...more })])
      assert.is((await refused(40001, asked)).details[0].path, field);
});

test('a kept refusal is answered again, with the request id of the repetition', async () => {
  const body = { name: 'k', workspaceId: 'ws_01h455vb4pex5vsknk084sn02q', expiresAt: 1 };
  const create = (id: string) =>
    ask('post', '/api/v1/api-key', body, { 'Idempotency-Key': 'refused', 'X-Request-Id': id });
  const [first, again] = [await create('first'), await create('again')];
  assert.is(first.body.error.requestId, 'first');
  assert.equal(again.body.error, { ...first.body.error, requestId: 'again' });
  assert.equal([again.status, again.headers.get('x-request-id')], [403, 'again']);
});

test('a name that people see is not blank and hides nothing, and letters, emoji and joined scripts are taken', async () => {
  const status = async (name: string) => (await world.call('post', '/api/v1/workspace', { name })).status;
  const hidden = ' |\u3000 |Ac\u200bme|\u202eemcA|Acme\u2066|Ac\u200dme|\ufeffAcme|\u00ad|\u200d|\u3164';
  for (const name of hidden.split('|')) assert.is(await status(name), 400, JSON.stringify(name));
  const seen = 'A| Acme GmbH & Co. |naïve 日本|👩\u200d💻 lab|❤️\u200d🔥|می\u200cخواهم|שלום|क्\u200dष|$';
  for (const name of seen.split('|')) assert.is(await status(name), 201, JSON.stringify(name));
});

test('a deleted workspace is answered once more; from then on it is unknown, and its name is free', async () => {
  const { path, workspace } = await newWorkspace('Acme');
  const removed = await remove(path);
  assert.ok(removed.updatedAt > workspace.updatedAt);
  assert.equal(removed, { ...workspace, updatedAt: removed.updatedAt });
  for (const [method, more, sent] of [
    ['delete', ''],
    ['get', ''],
    ['patch', '', { name: 'x' }],
    ['get', '/api-keys'],
    ['get', '/scopes'],
    ['post', '/scope', { name: 's', representation: 's' }],
  ] as const)
    await refused(40302, ask(method, path + more, sent), `${method} ${more}`);
  assert.not.ok(column(await read('/api/v1/workspace'), 'id').includes(workspace.id));
  await make('/api/v1/workspace', { name: 'Acme' });

  const line = (await read(`/api/v1/audit-log?resourceId=${workspace.id}`)).at(-1);
  const told = [line.operation, line.resource, line.before, line.after];
  assert.equal(told, ['DELETE /api/v1/workspace/{id}', 'workspace', workspace, undefined]);
});

test('a token that is limited to a deleted workspace and another goes on in the other, and none is made for the deleted one', async () => {
  const [first, second] = [await newWorkspace('first'), await newWorkspace('second')];
  const ids = [first.workspace.id, second.workspace.id];
  const token = await world.newToken(world.team.id, ['workspace:read', 'key:verify'], ids);
  const [lost, kept] = [await first.customers.newKey(), await second.customers.newKey()];
  const found = async ({ key }: { key: string }) => (await first.customers.verify({ key }, { token })).body.status;
  assert.is(await found(lost), 'VALID');
  await remove(first.path);
  assert.equal([await found(lost), await found(kept)], ['INVALID', 'VALID']);
  await callsOf(world, token).read(second.path);
  const wanted = { name: 't', permissions: ['key:verify'], workspaceIds: ids };
  await refused(40302, ask('post', '/api/v1/access-token', wanted));
});

test('its keys are refused by the very next verification, in every shard and on every server; their link tokens too', async () => {
  const { path, customers, workspace } = await newWorkspace('many');
  const keys = await Promise.all(Array.from({ length: 12 }, () => customers.newKey()));
  keys.push(await customers.meteredKey('10'));
  await post(`${path}/api-key/${keys[0]!.id}/rotate`, { graceSeconds: 600 });
  const other = await (await newWorkspace('other')).customers.newKey();
  assert.ok(new Set(keys.map(({ key }) => keyShard(key))).size > 3);
  // Twice: the second answer comes from a lookup that verify has kept.
  for (const { key } of [...keys, ...keys]) assert.is((await customers.verify({ key })).body.status, 'VALID');
  const link = { workspaceId: workspace.id, customerId: 'c' };
  const { token } = await make('/api/v1/link-token', link);
  await remove(path);
  for (const url of [world.verify.url, world.api.url])
    for (const { key } of keys) assert.equal((await customers.verify({ key }, { url })).body, REFUSED);
  assert.is((await customers.verify({ key: other.key })).body.status, 'VALID');
  assert.equal((await world.call('get', `/api/v1/link-token/${token}`)).body, { valid: false });
  await refused(40406, ask('delete', `/api/v1/link-token/${token}`));
  await refused(40302, ask('post', '/api/v1/link-token', link));
  await refused(40302, ask('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id }));
});

test('its books can be read as before, and no longer change', async () => {
  const { path, customers, workspace } = await newWorkspace('books');
  const { key, meter } = await customers.meteredKey('10');
  const { id } = await customers.billing(meter);
  const grant = await make(`/api/v1/customer-billing/${id}/grant`, { credits: '1' });
  await must(200, customers.verify({ key, billing: { usage: '2.5' } }));
  const named = { workspaceId: workspace.id, externalMeterId: meter };
  await post('/api/v1/customer-billing/refill', { ...named, refill: 5 });
  await remove(path);
  const at = `/api/v1/customer-billing/${id}`;
  await world.booked();
  const billing = await read(at);
  assert.equal([billing.totalCredits, billing.usedCredits], ['16', '2.5']);
  assert.is((await read(`${at}/ledger`)).length, 2);
  assert.is((await read(`${at}/grant/${grant.id}`)).remainingCredits, '1');
  const reconciliation = await read(`${at}/reconciliation`);
  assert.equal([reconciliation.status, reconciliation.bookedCredits], ['EXACT', '2.5']);
  const data = await read(`/api/v1/usage/${id}`);
  assert.equal([data.length, data[0].totalBillingUsage], [1, '2.5']);
  for (const [code, method, changed, body] of [
    [40907, 'patch', at, { allowOverages: true }],
    [40907, 'post', `${at}/adjustment`, { amount: '1', reason: 'r' }],
    [40907, 'post', `${at}/grant`, { credits: '5' }],
    [40907, 'post', `${at}/grant/${grant.id}/void`, { reason: 'r' }],
    [40302, 'post', '/api/v1/customer-billing/refill', { ...named, refill: 5 }],
    [40302, 'post', '/api/v1/customer-billing', { ...named, externalMeterId: 'another' }],
  ] as const)
    await refused(code, ask(method, changed, body), changed);
});

test('a key that is made while its workspace is being deleted is refused and leaves like all others', async () => {
  const { path, workspace, customers } = await newWorkspace('contested');
  const body = { name: 'k', workspaceId: workspace.id };
  const making = Array.from({ length: 12 }, () => world.call('post', '/api/v1/api-key', body));
  const [deleted, ...made] = await Promise.all([world.call('delete', path), ...making]);
  assert.is(deleted.status, 200, deleted.text);
  for (const answer of made) {
    if (answer.status === 403) continue;
    assert.is(answer.status, 201, answer.text);
    assert.equal((await customers.verify({ key: answer.body.apiKey.key })).body, REFUSED);
  }
  await background.removeUntil(async () => {
    const [row] = await world.sql`
      select keys_removed_to = coalesce((select max(id) from api_keys k where k.workspace_id = w.id), '') as done
      from workspaces w where id = ${workspace.id} and keys_removed_at is not null`;
    return row?.['done'] === true;
  });
});

async function newWorkspace(name: string) {
  const workspace = await make('/api/v1/workspace', { name });
  return { workspace, customers: makeCustomers(world, workspace.id), path: `/api/v1/workspace/${workspace.id}` };
}
