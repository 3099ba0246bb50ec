import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { joinWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
const test = suite('workspaces');
test.before(async () => {
  world = await joinWorld();
});
test.after(() => world?.stop());

test('a workspace is created, read, listed and changed', async () => {
  const made = await world.call('post', '/api/v1/workspace', { name: 'Acme' });
  assert.is(made.status, 201, made.text);
  const { workspace } = made.body;
  assert.match(workspace.id, /^ws_[0-9a-z]{26}$/);
  assert.equal(workspace, {
    id: workspace.id,
    name: 'Acme',
    teamId: world.team.id,
    defaultAllowedIPs: [],
    timezone: 'UTC',
    createdAt: workspace.createdAt,
    updatedAt: workspace.createdAt,
  });

  const path = `/api/v1/workspace/${workspace.id}`;
  assert.equal((await world.call('get', path)).body, made.body);
  const changed = await world.call('patch', path, {
    defaultKeyPrefix: 'acme',
    defaultAllowedIPs: ['10.0.0.0/8'],
    defaultRateLimitPerSecond: 5,
    defaultExpiration: 60,
  });
  assert.is(changed.status, 200, changed.text);
  assert.is(changed.body.workspace.defaultKeyPrefix, 'acme');
  assert.equal(changed.body.workspace.defaultAllowedIPs, ['10.0.0.0/8']);
  const cleared = await world.call('patch', path, { defaultKeyPrefix: null, defaultAllowedIPs: null });
  assert.is(cleared.body.workspace.defaultKeyPrefix, undefined);
  assert.equal(cleared.body.workspace.defaultAllowedIPs, []);
  assert.is(cleared.body.workspace.defaultRateLimitPerSecond, 5);
  assert.equal((await world.call('get', '/api/v1/workspace')).body.workspaces, [cleared.body.workspace]);
});

test('each list is read page by page, each item once', async () => {
  const { id, token } = await world.newTeam();
  const make = (path: string, body: object) => world.call('post', path, body, { token });
  const names = ['n0', 'n1', 'n2', 'n3', 'n4'];
  for (const name of names) await make('/api/v1/workspace', { name });
  for (const name of names) await make('/api/v1/access-token', { name, permissions: ['key:read'] });
  const workspaceId = await world.newWorkspace(id);
  for (const name of names) await make('/api/v1/api-key', { name, workspaceId });
  for (const [path, expected] of [
    ['/api/v1/workspace', [...names, 'elsewhere']],
    ['/api/v1/access-token', ['test', ...names]],
    [`/api/v1/workspace/${workspaceId}/api-keys`, names],
  ] as const) {
    const pages = await readPages<{ name: string }>(2, (query) =>
      world.call('get', `${path}?${query}`, undefined, { token }),
    );
    assert.ok(pages.every((page, i) => page.length === Math.min(2, expected.length - 2 * i)));
    assert.equal(
      pages.flat().map(({ name }) => name),
      expected,
    );
  }
});

test('a limit is a whole number from 1 to 200, in digits', async () => {
  const wrong = ['0', '201', '-1', '1.5', '1e2', '1e400', '0x10', '%201', '', '9'.repeat(400), 'x', '1&limit=2'];
  for (const limit of wrong) {
    const { body } = await must(400, world.call('get', `/api/v1/workspace?limit=${limit}`));
    assert.is(body.error.details[0].path, 'limit', limit);
  }
  await must(200, world.call('get', '/api/v1/workspace?limit=200'));
});

test('a cursor of another list is a 400', async () => {
  const make = async (token: string) => {
    const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' }, { token })).body;
    for (let i = 0; i < 2; i++)
      await world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id }, { token });
    return `/api/v1/workspace/${workspace.id}/api-keys`;
  };
  const other = await world.newTeam();
  const [first, second, foreign] = [
    await make(world.team.token),
    await make(world.team.token),
    await make(other.token),
  ];
  const cursorOf = async (path: string, token = world.team.token): Promise<string> =>
    (await world.call('get', `${path}?limit=1`, undefined, { token })).body.nextCursor;
  const codeWith = async (path: string, cursor: string) =>
    (await world.call('get', `${path}?cursor=${cursor}`)).body.error?.code;
  const own = await cursorOf(first);
  assert.is(await codeWith(first, own), undefined);
  const bare = Buffer.from('key_01h455vb4pex5vsknk084sn02q').toString('base64url');
  for (const [path, cursor] of [
    [first, await cursorOf(second)],
    [first, await cursorOf(foreign, other.token)],
    [first, await cursorOf('/api/v1/workspace')],
    [first, bare],
    [first, `${own}A`],
    [first, 'x'],
    ['/api/v1/workspace', own],
    ['/api/v1/access-token', own],
  ] as const) {
    assert.is(await codeWith(path, cursor), 40007, `${path} ${cursor}`);
  }
});

test('an empty PATCH changes nothing', async () => {
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'still' })).body;
  const path = `/api/v1/workspace/${workspace.id}`;
  assert.equal((await world.call('patch', path, {})).body, { workspace });
  const { scope } = (await world.call('post', `${path}/scope`, { name: 's', representation: 's' })).body;
  assert.equal((await world.call('patch', `${path}/scope/${scope.id}`, {})).body, { scope });
  const { apiKey } = (await world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id })).body;
  const { key, ...rest } = apiKey;
  assert.equal((await world.call('patch', `${path}/api-key/${apiKey.id}`, {})).body, { apiKey: rest });
  const granted = await world.call('patch', `${path}/api-key/${apiKey.id}`, { scopes: [{ representation: 's' }] });
  assert.ok(granted.body.apiKey.updatedAt > apiKey.updatedAt, 'scopes alone are a change too');
  const record = { workspaceId: workspace.id, externalMeterId: 'm' };
  const { billing } = (await world.call('post', '/api/v1/customer-billing', record)).body;
  assert.equal((await world.call('patch', `/api/v1/customer-billing/${billing.id}`, {})).body, { billing });
  assert.ok(key);
});

test('a workspace has a time zone, which must be one that is known', async () => {
  const made = await world.call('post', '/api/v1/workspace', { name: 'w', timezone: 'Asia/Kathmandu' });
  assert.is(made.body.workspace.timezone, 'Asia/Kathmandu', made.text);
  const path = `/api/v1/workspace/${made.body.workspace.id}`;
  const moved = await world.call('patch', path, { timezone: 'America/St_Johns' });
  assert.is(moved.body.workspace.timezone, 'America/St_Johns');
  assert.is((await world.call('patch', path, { name: 'v' })).body.workspace.timezone, 'America/St_Johns');
  for (const timezone of ['Mars/Base', '+02:00', '', 'UTC; drop']) {
    const refused = await world.call('patch', path, { timezone });
    assert.equal([refused.status, refused.body.error.details?.[0].path], [400, '/timezone'], timezone);
    assert.is((await world.call('post', '/api/v1/workspace', { name: 'w', timezone })).status, 400);
  }
});

test('bad input is a 400 that names the field', async () => {
  for (const [body, path] of [
    [{}, '/name'],
    [{ name: '' }, '/name'],
    [{ name: 'a\u0000b' }, '/name'],
    [{ name: 'a', nmae: 'b' }, '/nmae'],
    [{ name: 'a', defaultAllowedIPs: ['10.0.0.0/33'] }, '/defaultAllowedIPs/0'],
    [{ name: 'a', defaultRateLimitPerSecond: 0 }, '/defaultRateLimitPerSecond'],
    [{ name: 'a', defaultRateLimitPerSecond: '5' }, '/defaultRateLimitPerSecond'],
  ] as const) {
    const answer = await world.call('post', '/api/v1/workspace', body);
    assert.is(answer.status, 400, answer.text);
    assert.is(answer.body.error.code, 40001);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === path),
      answer.text,
    );
  }
});

test('a token that is limited to workspaces lists these, and creates no others', async () => {
  const ours = await world.newWorkspace(world.team.id);
  const token = await world.newToken(world.team.id, ['workspace:read', 'workspace:write'], [ours]);
  const { workspaces } = (await world.call('get', '/api/v1/workspace', undefined, { token })).body;
  assert.equal(
    workspaces.map((one: { id: string }) => one.id),
    [ours],
  );
  assert.is((await world.call('post', '/api/v1/workspace', { name: 'n' }, { token })).body.error.code, 40302);
});

test('a caller without the permission is refused before the body is read', async () => {
  const raw = { raw: '{' };
  assert.is((await world.call('post', '/api/v1/workspace', undefined, { ...raw, token: null })).status, 401);
  const reader = await world.newToken(world.team.id, ['key:read']);
  assert.is((await world.call('post', '/api/v1/workspace', undefined, { ...raw, token: reader })).status, 403);
  assert.is((await world.call('post', '/api/v1/workspace', undefined, raw)).body.error.code, 40002);
  const empty = { headers: { 'Idempotency-Key': '' } };
  assert.is((await world.call('post', '/api/v1/workspace', { name: 'a' }, empty)).status, 400);
});

test('of repetitions at once each gets the first answer, and another body under the key is refused', async () => {
  const headers = { 'Idempotency-Key': 'create-once' };
  const create = (name: string) => world.call('post', '/api/v1/workspace', { name }, { headers });
  const answers = await Promise.all([1, 2, 3].map(() => must(201, create('once'))));
  for (const { text } of answers) assert.is(text, answers[0]!.text);
  assert.is((await create('twice')).body.error.code, 40904);
});

test('a kept refusal is answered again, with the request id of the repetition', async () => {
  const create = (id: string) =>
    world.call(
      'post',
      '/api/v1/api-key',
      { name: 'k', workspaceId: 'ws_01h455vb4pex5vsknk084sn02q', expiresAt: 1 },
      { headers: { 'Idempotency-Key': 'refused', 'X-Request-Id': id } },
    );
  const [first, again] = [await create('first'), await create('again')];
  assert.is(first.body.error.requestId, 'first');
  assert.equal(again.body.error, { ...first.body.error, requestId: 'again' });
  assert.equal([again.status, again.headers.get('x-request-id')], [403, 'again']);
});

test.run();
