import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeBackground } from '../../tests/helpers/background.ts';
import { type Answer, callsOf, codesOf, joinWorld, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

let workspaceId: string;
let workspacePath: string;
const world = await joinWorld();
const background = makeBackground(world);
const { ask, read, make, change, remove } = callsOf(world);
test.before.each(async () => {
  workspaceId = await newWorkspace(world, { name: 'Acme' });
  workspacePath = `/api/v1/workspace/${workspaceId}`;
});

const create = (representation: string) => ask('post', `${workspacePath}/scope`, { name: 'n', representation });
const made = (representation: string) => make(`${workspacePath}/scope`, { name: 'n', representation });
const rename = (id: string, representation: string) => ask('patch', `${workspacePath}/scope/${id}`, { representation });

test('a scope is created, read, listed, changed and deleted', async () => {
  const given = { name: 'Invoices', representation: 'invoices', description: 'all of\nthem' };
  const scope = await make(`${workspacePath}/scope`, given);
  assert.match(scope.id, /^scope_[0-9a-z]{26}$/);
  assert.equal(scope, { id: scope.id, ...given, createdAt: scope.createdAt, updatedAt: scope.createdAt });
  const second = await made('orders');
  assert.is(second.description, null);

  const path = `${workspacePath}/scope/${scope.id}`;
  assert.equal(await read(path), scope);
  assert.equal(await read(`${workspacePath}/scopes`), [scope, second]);

  const changes = { name: 'Bills', representation: 'bills', description: null };
  const changed = await change(path, changes);
  assert.ok(changed.updatedAt > scope.updatedAt);
  assert.equal(changed, { ...scope, ...changes, updatedAt: changed.updatedAt });

  assert.is((await remove(path)).id, scope.id);
  for (const [method, body] of [['get'], ['patch', { name: 'x' }], ['delete']] as const)
    await refused(40402, ask(method, path, body));
  assert.equal(await read(`${workspacePath}/scopes`), [second]);
});

test('a representation belongs to one scope of a workspace, also of many made at once, and is free again once that is deleted', async () => {
  const many = (nameOf: (i: number) => string) => Promise.all(Array.from({ length: 6 }, (_, i) => create(nameOf(i))));
  const [contested, free] = await Promise.all([many(() => 'contested'), many((i) => `free${i}`)]);
  assert.equal(codesOf(contested), [201, ...Array(5).fill(40901)]);
  assert.equal(codesOf(free), Array(6).fill(201));
  await refused(40901, rename(free[0]!.body.scope.id, 'contested'));
  await remove(`${workspacePath}/scope/${madeOne(contested).id}`);
  await made('contested');
});

test('what a key may do never changes by renaming a scope: its representation stays while a key that is not deleted has it', async () => {
  const { id } = await made('old');
  await must(200, rename(id, 'older'));
  const keys = [await grant('older'), await grant('older')];
  assert.match((await refused(40920, rename(id, 'new'))).message, /granted to 2 keys/);
  await change(`${workspacePath}/scope/${id}`, { name: 'b', description: 'c', representation: 'older' });

  await change(`${workspacePath}/api-key/${keys[0]}`, { scopes: null });
  assert.match((await refused(40920, rename(id, 'new'))).message, /granted to 1 key;/);
  await remove(`${workspacePath}/api-key/${keys[1]}`);
  assert.is((await must(200, rename(id, 'new'))).body.scope.representation, 'new');
});

test('granting, removing, renaming and deleting scopes hold for the very next verification', async () => {
  const { id } = await made('orders');
  await made('invoices');
  const reading = (...names: string[]) => names.map((representation) => ({ representation, read: true }));
  const { apiKey } = (await must(201, requestKey('orders'))).body;
  const path = `${workspacePath}/api-key/${apiKey.id}`;
  const set = (scopes: object | null) => change(path, { scopes });
  const verify = (...names: string[]) =>
    must(200, ask('post', '/api/v1/api-key/verify', { key: apiKey.key, requestedScopes: reading(...names) }));
  const expected = async (status: string, ...names: string[]) =>
    assert.is((await verify(...names)).body.status, status);
  await expected('VALID', 'orders');
  await expected('INVALID_SCOPES', 'orders', 'invoices');
  await set(reading('orders', 'invoices'));
  await expected('VALID', 'orders', 'invoices');
  await set(reading('invoices'));
  await must(200, rename(id, 'purchases'));
  await set(reading('purchases', 'invoices'));
  await expected('INVALID_SCOPES', 'orders');
  await expected('VALID', 'purchases', 'invoices');
  await remove(`${workspacePath}/scope/${id}`);
  await expected('INVALID_SCOPES', 'purchases');
  assert.equal((await verify('invoices')).body.scopes, (await read(path)).scopes);
  // A new scope with the representation of a deleted one is another scope; no key has it yet.
  await made('purchases');
  await expected('INVALID_SCOPES', 'purchases');
  await set(null);
  await expected('INVALID_SCOPES', 'invoices');
});

test('a scope that was deleted long ago leaves the keys that had it, which go on with their others, and a deleted one stays deleted', async () => {
  const { id } = await made('leaving');
  await made('staying');
  const keys = [(await must(201, requestKey('leaving', 'staying'))).body.apiKey];
  keys.push((await must(201, requestKey('leaving', 'staying'))).body.apiKey);
  await remove(`${workspacePath}/api-key/${keys[1].id}`);
  await remove(`${workspacePath}/scope/${id}`);
  await world.sql`update scopes set deleted_at = now() - interval '2 days' where id = ${id}`;
  await background.removeUntil(
    async () => (await world.sql`select from scopes where id = ${id} and removed_at is not null`).count === 1,
  );
  const expected = [
    [keys[0], 'staying', 'VALID'],
    [keys[0], 'leaving', 'INVALID_SCOPES'],
    [keys[1], 'staying', 'DELETED'],
  ] as const;
  for (const [{ key }, representation, status] of expected) {
    const requestedScopes = [{ representation, read: true }];
    const { body } = await ask('post', '/api/v1/api-key/verify', { key, requestedScopes }, {});
    assert.is(body.status, status, representation);
  }
});

test('of a renaming and a grant at the same time one is refused', async () => {
  const { id } = await made('r0');
  for (let round = 0; round < 10; round++) {
    const [renamed, granted] = await Promise.all([rename(id, `r${round + 1}`), requestKey(`r${round}`)]);
    assert.is(renamed.status === 200, granted.status !== 201, `${renamed.text} ${granted.text}`);
    if (granted.status !== 201) continue;
    await remove(`${workspacePath}/api-key/${granted.body.apiKey.id}`);
    await must(200, rename(id, `r${round + 1}`));
  }
});

test('a workspace holds at most 1000 scopes, deleted ones not counted', async () => {
  await world.sql`
    insert into scopes (id, team_id, workspace_id, ref, name, representation)
    select 'scope_' || i || ${workspaceId}, ${world.team.id}, ${workspaceId}, i, 'many', 'many:' || i
    from generate_series(1, 999) i`;
  await world.sql`update workspaces set last_scope_ref = 999 where id = ${workspaceId}`;
  const answers = await Promise.all([1, 2, 3].map((i) => create(`last${i}`)));
  assert.equal(codesOf(answers), [201, 40906, 40906]);
  await remove(`${workspacePath}/scope/${madeOne(answers).id}`);
  await made('again');
});

function madeOne(answers: Answer[]): { id: string } {
  return answers.find(({ status }) => status === 201)!.body.scope;
}

function requestKey(...representations: string[]): Promise<Answer> {
  const scopes = representations.map((representation) => ({ representation, read: true }));
  return ask('post', '/api/v1/api-key', { name: 'k', workspaceId, scopes });
}

async function grant(representation: string): Promise<string> {
  return (await must(201, requestKey(representation))).body.apiKey.id;
}
