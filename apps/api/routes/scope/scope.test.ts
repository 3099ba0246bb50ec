import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { joinWorld, type Answer } from '../../../../tests/helpers/world.ts';

let workspaceId: string;
let workspacePath: string;
const world = await joinWorld();
test.before.each(async () => {
  workspaceId = await newWorkspace(world, { name: 'Acme' });
  workspacePath = `/api/v1/workspace/${workspaceId}`;
});

const create = (body: unknown) => world.call('post', `${workspacePath}/scope`, body);
const made = async (representation: string) => (await must(201, create({ name: 'n', representation }))).body.scope;
const rename = (id: string, representation: string) =>
  world.call('patch', `${workspacePath}/scope/${id}`, { representation });
const statuses = (answers: Answer[]) => answers.map((answer) => answer.status).toSorted((a, b) => a - b);

test('a scope is created, read, listed, changed and deleted', async () => {
  const given = { name: 'Invoices', representation: 'invoices', description: 'all of\nthem' };
  const { scope } = (await must(201, create(given))).body;
  assert.match(scope.id, /^scope_[0-9a-z]{26}$/);
  assert.match(scope.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(scope, { id: scope.id, ...given, createdAt: scope.createdAt, updatedAt: scope.createdAt });
  const second = await made('orders');
  assert.is(second.description, null);

  const path = `${workspacePath}/scope/${scope.id}`;
  assert.equal((await world.call('get', path)).body, { scope });
  assert.equal((await world.call('get', `${workspacePath}/scopes`)).body, { scopes: [scope, second] });

  const change = { name: 'Bills', representation: 'bills', description: null };
  const changed = (await must(200, world.call('patch', path, change))).body.scope;
  assert.ok(changed.updatedAt > scope.updatedAt);
  assert.equal(changed, { ...scope, ...change, updatedAt: changed.updatedAt });

  assert.is((await must(200, world.call('delete', path))).body.scope.id, scope.id);
  for (const [method, body] of [['get'], ['patch', { name: 'x' }], ['delete']] as const)
    assert.is((await world.call(method, path, body)).body.error.code, 40402);
  assert.equal((await world.call('get', `${workspacePath}/scopes`)).body, { scopes: [second] });
});

test('a representation belongs to one scope of a workspace, also of many made at once, and is free again once that is deleted', async () => {
  const [contested, free] = await Promise.all([
    Promise.all(Array.from({ length: 6 }, (_, i) => create({ name: `n${i}`, representation: 'contested' }))),
    Promise.all(Array.from({ length: 6 }, (_, i) => create({ name: 'n', representation: `free${i}` }))),
  ]);
  assert.equal(statuses(contested), [201, ...Array(5).fill(409)]);
  assert.equal(statuses(free), Array(6).fill(201));
  for (const { status, body } of contested) if (status === 409) assert.is(body.error.code, 40901);
  assert.is((await rename(free[0]!.body.scope.id, 'contested')).body.error.code, 40901);
  const { id } = contested.find(({ status }) => status === 201)!.body.scope;
  await must(200, world.call('delete', `${workspacePath}/scope/${id}`));
  await made('contested');
});

test('what a key may do never changes by renaming a scope: its representation stays while a key that is not deleted has it', async () => {
  const { id } = await made('old');
  await must(200, rename(id, 'older'));
  const keys = [await grant('older'), await grant('older')];
  const { error } = (await must(409, rename(id, 'new'))).body;
  assert.is(error.code, 40920);
  assert.match(error.message, /granted to 2 keys/);
  const others = { name: 'b', description: 'c', representation: 'older' };
  await must(200, world.call('patch', `${workspacePath}/scope/${id}`, others));

  await must(200, world.call('patch', `${workspacePath}/api-key/${keys[0]}`, { scopes: null }));
  assert.match((await rename(id, 'new')).body.error.message, /granted to 1 key;/);
  await must(200, world.call('delete', `${workspacePath}/api-key/${keys[1]}`));
  assert.is((await must(200, rename(id, 'new'))).body.scope.representation, 'new');
});

test('granting, removing, renaming and deleting scopes hold for the very next verification', async () => {
  const { id } = await made('orders');
  await made('invoices');
  const reading = (...names: string[]) => names.map((representation) => ({ representation, read: true }));
  const { apiKey } = (await must(201, requestKey('orders'))).body;
  const path = `${workspacePath}/api-key/${apiKey.id}`;
  const set = (scopes: object | null) => must(200, world.call('patch', path, { scopes }));
  const verify = async (...names: string[]) => {
    const asked = { key: apiKey.key, requestedScopes: reading(...names) };
    return (await must(200, world.call('post', '/api/v1/api-key/verify', asked))).body;
  };
  const expected = async (status: string, ...names: string[]) => assert.is((await verify(...names)).status, status);
  await expected('VALID', 'orders');
  await expected('INVALID_SCOPES', 'orders', 'invoices');
  await set(reading('orders', 'invoices'));
  await expected('VALID', 'orders', 'invoices');
  await set(reading('invoices'));
  await must(200, rename(id, 'purchases'));
  await set(reading('purchases', 'invoices'));
  await expected('INVALID_SCOPES', 'orders');
  await expected('VALID', 'purchases', 'invoices');
  await must(200, world.call('delete', `${workspacePath}/scope/${id}`));
  await expected('INVALID_SCOPES', 'purchases');
  assert.equal((await verify('invoices')).scopes, (await must(200, world.call('get', path))).body.apiKey.scopes);
  // A new scope with the representation of a deleted one is another scope; no key has it yet.
  await made('purchases');
  await expected('INVALID_SCOPES', 'purchases');
  await set(null);
  await expected('INVALID_SCOPES', 'invoices');
});

test('of a renaming and a grant at the same time one is refused', async () => {
  const { id } = await made('r0');
  for (let round = 0; round < 10; round++) {
    const [renamed, granted] = await Promise.all([rename(id, `r${round + 1}`), requestKey(`r${round}`)]);
    assert.is(renamed.status === 200, granted.status !== 201, `${renamed.text} ${granted.text}`);
    if (granted.status !== 201) continue;
    await must(200, world.call('delete', `${workspacePath}/api-key/${granted.body.apiKey.id}`));
    await must(200, rename(id, `r${round + 1}`));
  }
});

test('a workspace holds at most 1000 scopes, deleted ones not counted', async () => {
  await world.sql`
    insert into scopes (id, team_id, workspace_id, ref, name, representation)
    select 'scope_' || i || ${workspaceId}, ${world.team.id}, ${workspaceId}, i, 'many', 'many:' || i
    from generate_series(1, 999) i`;
  await world.sql`update workspaces set last_scope_ref = 999 where id = ${workspaceId}`;
  const answers = await Promise.all([1, 2, 3].map((i) => create({ name: 'last', representation: `last${i}` })));
  assert.equal(statuses(answers), [201, 409, 409]);
  assert.is(answers.find(({ status }) => status === 409)!.body.error.code, 40906);
  const last = answers.find(({ status }) => status === 201)!.body.scope;
  await must(200, world.call('delete', `${workspacePath}/scope/${last.id}`));
  await made('again');
});

function requestKey(representation: string): Promise<Answer> {
  return world.call('post', '/api/v1/api-key', { name: 'k', workspaceId, scopes: [{ representation, read: true }] });
}

async function grant(representation: string): Promise<string> {
  return (await must(201, requestKey(representation))).body.apiKey.id;
}
