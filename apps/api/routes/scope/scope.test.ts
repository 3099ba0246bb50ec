import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../../../shared/values/key-text.ts';
import { eventually, makeWorld, type Answer, type World } from '../../../../tests/helpers/world.ts';
import { grantsOf } from '../../resources/keys/scopes.ts';

let world: World;
let workspacePath: string;
const test = suite('scopes');
test.before(async () => {
  world = await makeWorld();
});
test.before.each(async () => {
  const { body } = await world.call('post', '/api/v1/workspace', { name: 'Acme' });
  workspacePath = `/api/v1/workspace/${body.workspace.id}`;
});
test.after(() => world?.stop());

const create = (body: unknown, options = {}) => world.call('post', `${workspacePath}/scope`, body, options);
const statuses = (answers: Answer[]) => answers.map((answer) => answer.status).toSorted((a, b) => a - b);

test('a scope is created, read, listed, changed and deleted', async () => {
  const made = await create({ name: 'Invoices', representation: 'invoices', description: 'all of\nthem' });
  assert.is(made.status, 201, made.text);
  const { scope } = made.body;
  assert.match(scope.id, /^scope_[0-9a-z]{26}$/);
  assert.match(scope.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(scope, {
    id: scope.id,
    name: 'Invoices',
    representation: 'invoices',
    description: 'all of\nthem',
    createdAt: scope.createdAt,
    updatedAt: scope.createdAt,
  });
  const second = (await create({ name: 'Orders', representation: 'orders' })).body.scope;
  assert.is(second.description, null);

  const path = `${workspacePath}/scope/${scope.id}`;
  assert.equal((await world.call('get', path)).body, { scope });
  assert.equal((await world.call('get', `${workspacePath}/scopes`)).body, { scopes: [scope, second] });

  const changed = await world.call('patch', path, { name: 'Bills', representation: 'bills', description: null });
  assert.is(changed.status, 200, changed.text);
  const { updatedAt } = changed.body.scope;
  assert.ok(updatedAt > scope.updatedAt);
  assert.equal(changed.body.scope, { ...scope, name: 'Bills', representation: 'bills', description: null, updatedAt });

  const deleted = await world.call('delete', path);
  assert.is(deleted.status, 200, deleted.text);
  assert.is(deleted.body.scope.id, scope.id);
  for (const [method, body] of [['get'], ['patch', { name: 'x' }], ['delete']] as const) {
    const gone = await world.call(method, path, body);
    assert.is(gone.body.error.code, 40402, gone.text);
  }
  assert.equal((await world.call('get', `${workspacePath}/scopes`)).body, { scopes: [second] });
});

test('a representation belongs to one scope of a workspace, and is free again once that scope is deleted', async () => {
  const first = (await create({ name: 'a', representation: 'invoices' })).body.scope;
  assert.is((await create({ name: 'b', representation: 'invoices' })).body.error.code, 40901);
  const other = (await create({ name: 'c', representation: 'orders' })).body.scope;
  const taken = await world.call('patch', `${workspacePath}/scope/${other.id}`, { representation: 'invoices' });
  assert.is(taken.body.error.code, 40901);
  await world.call('delete', `${workspacePath}/scope/${first.id}`);
  assert.is((await create({ name: 'b', representation: 'invoices' })).status, 201);
});

test('what a key may do never changes by renaming a scope: its representation stays while a key that is not deleted has it', async () => {
  const { id } = (await create({ name: 'a', representation: 'old' })).body.scope;
  const path = `${workspacePath}/scope/${id}`;
  const rename = (representation: string) => world.call('patch', path, { representation });
  assert.is((await rename('older')).status, 200, 'nobody has it yet');
  const keys = [await grant('older'), await grant('older')];
  const refused = await rename('new');
  assert.is(refused.status, 409, refused.text);
  assert.is(refused.body.error.code, 40920);
  assert.match(refused.body.error.message, /granted to 2 keys/);
  const named = await world.call('patch', path, { name: 'b', description: 'c', representation: 'older' });
  assert.is(named.status, 200, 'all else may change');

  await world.call('patch', `${workspacePath}/api-key/${keys[0]}`, { scopes: null });
  assert.match((await rename('new')).body.error.message, /granted to 1 key;/);
  await world.call('delete', `${workspacePath}/api-key/${keys[1]}`);
  const renamed = await rename('new');
  assert.is(renamed.status, 200, 'a deleted key can do nothing');
  assert.is(renamed.body.scope.representation, 'new');
});

test('of a renaming and a grant at the same time one is refused', async () => {
  const { id } = (await create({ name: 'a', representation: 'r0' })).body.scope;
  for (let round = 0; round < 15; round++) {
    const from = `r${round}`;
    const [renamed, granted] = await Promise.all([
      world.call('patch', `${workspacePath}/scope/${id}`, { representation: `r${round + 1}` }),
      requestKey(from),
    ]);
    assert.equal(statuses([renamed, granted])[0]! < 300, true, `${renamed.text} ${granted.text}`);
    assert.is(renamed.status === 200, granted.status !== 201, `${renamed.text} ${granted.text}`);
    if (granted.status !== 201) continue;
    await world.call('delete', `${workspacePath}/api-key/${granted.body.apiKey.id}`);
    await world.call('patch', `${workspacePath}/scope/${id}`, { representation: `r${round + 1}` });
  }
});

test('whether a scope is granted is one look into an index, however many deleted keys have it', async () => {
  const { id } = (await create({ name: 'a', representation: 'many' })).body.scope;
  const workspaceId = workspacePath.split('/').at(-1)!;
  const { sql, team } = world;
  const key = (i: number | ReturnType<typeof sql>) => sql`'key_' || ${i} || ${workspaceId}`;
  await sql`
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled)
    select ${key(sql`i`)}, ${team.id}, ${workspaceId}, 0, 'n', 'p', 'm', true from generate_series(1, 4000) i`;
  await sql`
    insert into key_grants (team_id, key_id, scope_id, flags, position)
    select ${team.id}, ${key(sql`i`)}, ${id}, 2, 0 from generate_series(1, 4000) i`;
  const refused = await world.call('patch', `${workspacePath}/scope/${id}`, { representation: 'few' });
  assert.match(refused.body.error.message, /granted to at least 100 keys/);
  await sql`update api_keys set deleted_at = now() where workspace_id = ${workspaceId}`;
  // A vacuum removes only what no transaction sees any more, also one that the api has open.
  await eventually('it is one look', async () => {
    await sql`vacuum analyze key_grants`;
    const [row] = await sql`explain (analyze, buffers, format json) ${grantsOf(sql, id, 100)}`;
    const [{ Plan }] = row!['QUERY PLAN'] as [{ Plan: Record<string, number> }];
    assert.match(JSON.stringify(row), /key_grants_of_scope/);
    return Plan['Shared Hit Blocks']! + Plan['Shared Read Blocks']! < 10;
  });
  assert.is((await world.call('patch', `${workspacePath}/scope/${id}`, { representation: 'few' })).status, 200);
});

test('of concurrent creations with the same representation, one succeeds', async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, i) => create({ name: `n${i}`, representation: 'contested' })),
  );
  assert.equal(statuses(answers), [201, ...Array(7).fill(409)]);
  for (const answer of answers) if (answer.status === 409) assert.is(answer.body.error.code, 40901);
});

test('concurrent creations with different representations all succeed', async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, i) => create({ name: 'n', representation: `free${i}` })),
  );
  for (const answer of answers) assert.is(answer.status, 201, answer.text);
  assert.is((await world.call('get', `${workspacePath}/scopes`)).body.scopes.length, 8);
});

test('a workspace holds at most 1000 scopes, deleted ones not counted', async () => {
  const workspaceId = workspacePath.split('/').at(-1)!;
  await world.sql`
    insert into scopes (id, team_id, workspace_id, ref, name, representation)
    select 'scope_' || i || ${workspaceId}, ${world.team.id}, ${workspaceId}, i, 'many', 'many:' || i
    from generate_series(1, 999) i`;
  await world.sql`update workspaces set last_scope_ref = 999 where id = ${workspaceId}`;
  const answers = await Promise.all([1, 2, 3].map((i) => create({ name: 'last', representation: `last${i}` })));
  assert.equal(statuses(answers), [201, 409, 409]);
  const refused = answers.find((answer) => answer.status === 409)!;
  assert.is(refused.body.error.code, 40906);
  const last = answers.find((answer) => answer.status === 201)!.body.scope;
  assert.is((await world.call('delete', `${workspacePath}/scope/${last.id}`)).status, 200);
  assert.is((await create({ name: 'last', representation: 'again' })).status, 201);
});

test('a deleted scope leaves every shard of Redis once no late writer can fill its place, and no replay brings it back', async () => {
  const { scope } = (await create({ name: 'a', representation: 'a' })).body;
  await create({ name: 'b', representation: 'b' });
  await world.call('delete', `${workspacePath}/scope/${scope.id}`);
  const redis = new Redis(world.env['REDIS_URL']!);
  const workspaceId = workspacePath.split('/').at(-1)!;
  const fields = async (name: string) => {
    const values = ALL_SHARDS.map((shard) => redis.hget(keyspace.workspace(shard, workspaceId), name));
    return (await Promise.all(values)).filter((value) => value !== null).length;
  };
  assert.is(await fields('s1'), 64);
  await world.sql`update scopes set deleted_at = now() - interval '25 hours' where id = ${scope.id}`;
  await eventually('its fields have left', async () => (await fields('s1')) === 0);
  await world.sql`update changes set applied_at = null, created_at = now() - interval '1 hour' where entity_id = ${scope.id}`;
  await eventually('its changes are applied again', async () => {
    const [waiting] = await world.sql`select from changes where applied_at is null`;
    return !waiting;
  });
  assert.equal([await fields('s1'), await fields('s2'), await fields('d')], [0, 64, 64]);
  redis.disconnect();
});

test('an Idempotency-Key makes repeating a creation safe', async () => {
  const headers = { 'Idempotency-Key': `scope ${workspacePath}` };
  const answers = await Promise.all([1, 2, 3].map(() => create({ name: 'once', representation: 'once' }, { headers })));
  for (const answer of answers) assert.equal([answer.status, answer.text], [201, answers[0]!.text]);
  assert.is((await create({ name: 'twice', representation: 'once' }, { headers })).body.error.code, 40904);
});

test('bad input is a 400 that names the field', async () => {
  const { id } = (await create({ name: 'a', representation: 'a' })).body.scope;
  const good = { name: 'b', representation: 'b' };
  for (const [method, path, body, wrong] of [
    ['post', 'scope', { name: 'b' }, '/representation'],
    ['post', 'scope', { representation: 'b' }, '/name'],
    ['post', 'scope', { ...good, representation: 'no blanks' }, '/representation'],
    ['post', 'scope', { ...good, representation: ':colon-first' }, '/representation'],
    ['post', 'scope', { ...good, representation: 'x'.repeat(129) }, '/representation'],
    ['post', 'scope', { ...good, description: 1 }, '/description'],
    ['post', 'scope', { ...good, description: 'a\u0000b' }, '/description'],
    ['post', 'scope', { ...good, desc: 'misspelt' }, '/desc'],
    ['post', 'scope', undefined, ''],
    ['patch', `scope/${id}`, { name: null }, '/name'],
    ['patch', `scope/${id}`, { representation: '' }, '/representation'],
    ['patch', `scope/${id}`, { id: 'other' }, '/id'],
  ] as const) {
    const answer = await world.call(method, `${workspacePath}/${path}`, body);
    assert.is(answer.status, 400, `${JSON.stringify(body)} ${answer.text}`);
    assert.is(answer.body.error.code, 40001);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === wrong),
      answer.text,
    );
  }
});

test('no answer tells anything without a token, without the permission, or to another team', async () => {
  const { scope } = (await create({ name: 'ours', representation: 'ours' })).body;
  const reader = await world.newToken(world.team.id, ['workspace:read']);
  const writer = await world.newToken(world.team.id, ['workspace:write']);
  const limited = await world.newToken(
    world.team.id,
    ['workspace:read', 'workspace:write'],
    [await world.newWorkspace(world.team.id)],
  );
  const other = await world.newTeam();
  const elsewhere = (await world.call('post', '/api/v1/workspace', { name: 'elsewhere' })).body.workspace.id;
  for (const [method, path, body] of [
    ['post', 'scope', { name: 'new', representation: 'new' }],
    ['get', 'scopes'],
    ['get', `scope/${scope.id}`],
    ['patch', `scope/${scope.id}`, { name: 'theirs' }],
    ['delete', `scope/${scope.id}`],
  ] as const) {
    const refusal = async (token: string | null, base = workspacePath) =>
      (await world.call(method, `${base}/${path}`, body, { token })).body.error.code;
    assert.is(await refusal(null), 40101);
    assert.is(await refusal(method === 'get' ? writer : reader), 40301);
    assert.is(await refusal(other.token), 40302);
    assert.is(await refusal(limited), 40302);
    for (const none of ['x', '%00', '%E0%A4%A', 'ws_01h455vb4pex5vsknk084sn02q']) {
      assert.is(await refusal(world.team.token, `/api/v1/workspace/${none}`), 40302, none);
    }
    if (path === `scope/${scope.id}`)
      assert.is(await refusal(world.team.token, `/api/v1/workspace/${elsewhere}`), 40402);
  }
  for (const none of ['x', '%00', 'scope_01h455vb4pex5vsknk084sn02q']) {
    assert.is((await world.call('get', `${workspacePath}/scope/${none}`)).body.error.code, 40402, none);
  }
  assert.equal((await world.call('get', `${workspacePath}/scopes`)).body, { scopes: [scope] });
});

test.run();

function requestKey(representation: string): Promise<Answer> {
  const workspaceId = workspacePath.split('/').at(-1)!;
  return world.call('post', '/api/v1/api-key', { name: 'k', workspaceId, scopes: [{ representation, read: true }] });
}

async function grant(representation: string): Promise<string> {
  return (await requestKey(representation)).body.apiKey.id;
}
