import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { joinWorld, type Answer, type World } from '../../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;
let path: string;
const test = suite('API keys refused');
test.before(async () => {
  world = await joinWorld();
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body.workspace.id;
  await world.call('post', `/api/v1/workspace/${workspaceId}/scope`, { name: 'a', representation: 'known' });
  path = `/api/v1/workspace/${workspaceId}/api-key/${(await create({})).body.apiKey.id}`;
});
test.after(() => world?.stop());

const create = (body: object) => world.call('post', '/api/v1/api-key', { name: 'Robot', workspaceId, ...body });
const nested = (levels: number): object => (levels === 1 ? {} : { a: nested(levels - 1) });
const known = { representation: 'known' };

// Of a creation and of a change.
const wrong: [string, unknown][] = [
  ['/name', ''],
  ['/name', 'x'.repeat(129)],
  ['/enabeld', false],
  ['/enabled', 'yes'],
  ['/scopes/0/raed', [{ ...known, raed: true }]],
  ['/scopes/1/representation', [known, { ...known, read: true }]],
  ['/scopes', Array.from({ length: 101 }, () => known)],
  ['/expiresAt', 1.5],
  ['/expiresAt', 1e300],
  ['/rateLimitPerSecond', 0],
  ['/allowedIPs/0', ['10.0.0']],
  ['/metadata', []],
  ['/metadata', 'text'],
  ['/metadata', { a: 'x'.repeat(4089) }],
  ['/metadata', nested(6)],
  ['/metadata', { a: [{ constructor: 1 }] }],
  ['/metadata', { prototype: 1 }],
];

test('bad input is a 400 that names the field, at creation and in a change', async () => {
  const refused = async (answer: Promise<Answer>, field: string) => {
    const { status, body, text } = await answer;
    assert.equal([status, body.error.code], [400, 40001], `${field} ${text}`);
    assert.ok(
      body.error.details.some((detail: { path: string }) => detail.path === field),
      `${field} ${text}`,
    );
  };
  for (const [field, value] of wrong) {
    const body = { [field.split('/')[1]!]: value };
    await refused(create(body), field);
    await refused(world.call('patch', path, body), field);
  }
  for (const [name, value] of Object.entries({ prefix: '1st', customerId: '', externalMeterId: 'a\u001fb' }))
    await refused(create({ [name]: value }), `/${name}`);
  await refused(create({ workspaceId: undefined }), '/workspaceId');
  await refused(create({ prefix: 'x'.repeat(33) }), '/prefix');
  // What a key keeps for good.
  for (const name of ['externalMeterId', 'customerId', 'prefix', 'workspaceId'])
    await refused(world.call('patch', path, { [name]: 'p' }), `/${name}`);
});

test('metadata up to its limits is accepted, and __proto__ is refused at any depth', async () => {
  const at4096 = { a: 'x'.repeat(4088) };
  for (const metadata of [at4096, nested(5)]) assert.equal((await create({ metadata })).body.apiKey.metadata, metadata);
  const deep = `{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`;
  for (const metadata of ['{"__proto__":1}', '{"a":[{"__proto__":{}}]}', deep]) {
    const raw = `{"name":"a","workspaceId":"${workspaceId}","metadata":${metadata}}`;
    assert.is((await world.call('post', '/api/v1/api-key', undefined, { raw })).body.error.code, 40001);
  }
});

test('an expiresAt in the past is refused, and one in seconds gets a hint', async () => {
  for (const [expiresAt, words] of [
    [Math.floor(Date.now() / 1000) + 3600, /seconds/],
    [Date.now() - 1, /must lie in the future, in Unix milliseconds\.$/],
    [0, /must lie in the future/],
    [-1, /must lie in the future/],
  ] as const) {
    for (const { body } of [await create({ expiresAt }), await world.call('patch', path, { expiresAt })]) {
      assert.is(body.error.code, 40004);
      assert.match(body.error.message, words);
    }
  }
});

test('granting a scope that the workspace lacks names the scope and stores nothing', async () => {
  const scopes = [known, { representation: 'unknown:one', read: true }];
  for (const { body } of [
    await create({ name: 'not stored', scopes }),
    await world.call('patch', path, { name: 'not stored', scopes }),
  ]) {
    assert.is(body.error.code, 40003);
    assert.match(body.error.message, 'unknown:one');
    const details = [{ path: '/scopes/1/representation', message: 'is not a scope of the workspace' }];
    assert.equal(body.error.details, details);
  }
  assert.is(
    (await world.sql`select from api_keys where workspace_id = ${workspaceId} and name = 'not stored'`).length,
    0,
  );
});

test('a path with what is no id, or with a key of another workspace, is answered like that of an unknown one', async () => {
  const elsewhere = await world.newWorkspace(world.team.id);
  const ids = ['x', '%00', '%E0%A4%A'];
  for (const [at, code] of [
    [path.replace(workspaceId, elsewhere), 40403],
    ...[...ids, 'ws_01h455vb4pex5vsknk084sn02q'].map((id) => [path.replace(workspaceId, id), 40302] as const),
    ...[...ids, 'key_01h455vb4pex5vsknk084sn02q'].map((id) => [path.replace(/key_\w+/, id), 40403] as const),
  ] as const)
    for (const method of ['get', 'patch', 'delete'])
      assert.is((await world.call(method, at, method === 'patch' ? {} : undefined)).body.error.code, code, at);
});

test.run();
