import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;
let path: string;
const test = suite('API keys refused');
test.before(async () => {
  world = await makeWorld();
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body.workspace.id;
  await world.call('post', `/api/v1/workspace/${workspaceId}/scope`, { name: 'a', representation: 'known' });
  const made = await world.call('post', '/api/v1/api-key', { name: 'Robot', workspaceId });
  path = `/api/v1/workspace/${workspaceId}/api-key/${made.body.apiKey.id}`;
});
test.after(() => world?.stop());

const create = (body: object) => world.call('post', '/api/v1/api-key', { name: 'Robot', workspaceId, ...body });
const nested = (levels: number): object => (levels === 1 ? {} : { a: nested(levels - 1) });

test('bad input is a 400 that names the field, at creation and in a change', async () => {
  for (const [body, wrong] of [
    [{ name: '' }, '/name'],
    [{ name: 'x'.repeat(129) }, '/name'],
    [{ enabeld: false }, '/enabeld'],
    [{ enabled: 'yes' }, '/enabled'],
    [{ scopes: [{ representation: 'known', raed: true }] }, '/scopes/0/raed'],
    [{ scopes: [{ representation: 'known' }, { representation: 'known', read: true }] }, '/scopes/1/representation'],
    [{ scopes: Array.from({ length: 101 }, () => ({ representation: 'known' })) }, '/scopes'],
    [{ expiresAt: 1.5 }, '/expiresAt'],
    [{ expiresAt: 1e300 }, '/expiresAt'],
    [{ rateLimitPerSecond: 0 }, '/rateLimitPerSecond'],
    [{ allowedIPs: ['10.0.0'] }, '/allowedIPs/0'],
    [{ metadata: [] }, '/metadata'],
    [{ metadata: 'text' }, '/metadata'],
    [{ metadata: { a: 'x'.repeat(4089) } }, '/metadata'],
    [{ metadata: nested(6) }, '/metadata'],
    [{ metadata: { a: [{ constructor: 1 }] } }, '/metadata'],
    [{ metadata: { prototype: 1 } }, '/metadata'],
  ] as const) {
    for (const answer of [await create(body), await world.call('patch', path, body)]) {
      assert.is(answer.status, 400, `${JSON.stringify(body)} ${answer.text}`);
      assert.is(answer.body.error.code, 40001);
      assert.ok(
        answer.body.error.details.some((detail: { path: string }) => detail.path === wrong),
        answer.text,
      );
    }
  }
  for (const [body, wrong] of [
    [{ workspaceId: undefined }, '/workspaceId'],
    [{ prefix: '1st' }, '/prefix'],
    [{ prefix: 'x'.repeat(33) }, '/prefix'],
    [{ customerId: '' }, '/customerId'],
    [{ externalMeterId: 'a\u001fb' }, '/externalMeterId'],
  ] as const) {
    assert.is((await create(body)).body.error.details[0].path, wrong);
  }
});

test("a key's workspace, meter, customer and prefix cannot be changed", async () => {
  for (const [field, value] of [
    ['externalMeterId', 'm'],
    ['customerId', 'c'],
    ['prefix', 'p'],
    ['workspaceId', workspaceId],
  ] as const) {
    const answer = await world.call('patch', path, { [field]: value });
    assert.equal([answer.status, answer.body.error.details[0].path], [400, `/${field}`]);
  }
});

test('metadata up to its limits is accepted, and __proto__ is refused at any depth', async () => {
  const at4096 = { a: 'x'.repeat(4088) };
  assert.equal((await create({ metadata: at4096 })).body.apiKey.metadata, at4096);
  assert.equal((await create({ metadata: nested(5) })).body.apiKey.metadata, nested(5));
  for (const metadata of [
    '{"__proto__":1}',
    '{"a":[{"__proto__":{}}]}',
    `{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`,
  ]) {
    const raw = `{"name":"a","workspaceId":"${workspaceId}","metadata":${metadata}}`;
    const answer = await world.call('post', '/api/v1/api-key', undefined, { raw });
    assert.equal([answer.status, answer.body.error.code], [400, 40001], answer.text);
  }
});

test('an expiresAt in the past is refused, and one in seconds gets a hint', async () => {
  const seconds = Math.floor(Date.now() / 1000) + 3600;
  for (const [expiresAt, words] of [
    [seconds, /seconds/],
    [Date.now() - 1, /must lie in the future, in Unix milliseconds\.$/],
    [0, /must lie in the future/],
    [-1, /must lie in the future/],
  ] as const) {
    for (const answer of [await create({ expiresAt }), await world.call('patch', path, { expiresAt })]) {
      assert.equal([answer.status, answer.body.error.code], [400, 40004], answer.text);
      assert.match(answer.body.error.message, words);
    }
  }
});

test('granting a scope that the workspace lacks names the scope and stores nothing', async () => {
  const count = async () => (await world.sql`select from api_keys`).length;
  const before = await count();
  const scopes = [{ representation: 'known' }, { representation: 'unknown:one', read: true }];
  for (const answer of [await create({ scopes }), await world.call('patch', path, { name: 'changed', scopes })]) {
    assert.equal([answer.status, answer.body.error.code], [400, 40003], answer.text);
    assert.match(answer.body.error.message, 'unknown:one');
    assert.equal(answer.body.error.details, [
      { path: '/scopes/1/representation', message: 'is not a scope of the workspace' },
    ]);
  }
  assert.is(await count(), before);
  assert.is((await world.call('get', path)).body.apiKey.name, 'Robot');
});

test('no answer tells anything without a token, without the permission, or to another team', async () => {
  const reader = await world.newToken(world.team.id, ['key:read']);
  const writer = await world.newToken(world.team.id, ['key:write']);
  const limited = await world.newToken(
    world.team.id,
    ['key:read', 'key:write'],
    [await world.newWorkspace(world.team.id)],
  );
  const other = await world.newTeam();
  const elsewhere = (await world.call('post', '/api/v1/workspace', { name: 'elsewhere' })).body.workspace.id;
  const before = (await world.call('get', path)).body;
  for (const [method, tail, body] of [
    ['post', undefined, {}],
    ['get', 's'],
    ['get', path],
    ['patch', path, { name: 'theirs' }],
    ['delete', path],
    ['post', `${path}/rotate`],
  ] as const) {
    const refusal = async (token: string | null, workspace = workspaceId) => {
      const at =
        tail === 's'
          ? `/api/v1/workspace/${workspace}/api-keys`
          : tail?.replace(workspaceId, encodeURIComponent(workspace));
      const answer = at
        ? await world.call(method, at, body, { token })
        : await world.call('post', '/api/v1/api-key', { name: 'new', workspaceId: workspace }, { token });
      return answer.body.error?.code;
    };
    assert.is(await refusal(null), 40101);
    assert.is(await refusal(method === 'get' ? writer : reader), 40301);
    assert.is(await refusal(other.token), 40302);
    assert.is(await refusal(limited), 40302);
    for (const none of ['x', '\0', 'ws_01h455vb4pex5vsknk084sn02q'])
      assert.is(await refusal(world.team.token, none), 40302);
    if (tail?.startsWith(path)) {
      assert.is(await refusal(world.team.token, elsewhere), 40403);
      for (const none of ['x', '%00', '%E0%A4%A', 'key_01h455vb4pex5vsknk084sn02q']) {
        const answer = await world.call(method, tail.replace(/key_[0-9a-z]{26}/, none), body);
        assert.is(answer.body.error.code, 40403, none);
      }
    }
  }
  assert.equal((await world.call('get', path)).body, before);
});

test.run();
