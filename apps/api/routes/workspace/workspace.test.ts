import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
const test = suite('workspaces');
test.before(async () => {
  world = await makeWorld();
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

test('a list is read page by page, each workspace once', async () => {
  const team = await world.newTeam();
  const options = { token: team.token };
  for (let i = 0; i < 5; i++) await world.call('post', '/api/v1/workspace', { name: `w${i}` }, options);
  const names: string[] = [];
  let cursor = '';
  do {
    const page = await world.call(
      'get',
      `/api/v1/workspace?limit=2${cursor && `&cursor=${cursor}`}`,
      undefined,
      options,
    );
    assert.is(page.status, 200, page.text);
    names.push(...page.body.workspaces.map((one: { name: string }) => one.name));
    cursor = page.body.nextCursor ?? '';
  } while (cursor);
  assert.equal(names, ['w0', 'w1', 'w2', 'w3', 'w4']);
});

test('a limit is a whole number from 1 to 200, in digits', async () => {
  for (const limit of [
    '0',
    '201',
    '-1',
    '1.5',
    '1e2',
    '1e400',
    '0x10',
    '%201',
    '',
    '9'.repeat(400),
    'x',
    '1&limit=2',
  ]) {
    const answer = await world.call('get', `/api/v1/workspace?limit=${limit}`);
    assert.equal([answer.status, answer.body.error?.details[0].path], [400, 'limit'], `${limit} ${answer.text}`);
  }
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

test('no answer tells anything without a token, without the permission, or to another team', async () => {
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'ours' })).body;
  const path = `/api/v1/workspace/${workspace.id}`;
  const missing = await world.call('get', path, undefined, { token: null });
  assert.is(missing.body.error.code, 40101);
  assert.is(missing.headers.get('www-authenticate'), 'Bearer');
  const reader = await world.newToken(world.team.id, ['key:read']);
  assert.is((await world.call('get', path, undefined, { token: reader })).body.error.code, 40301);
  const other = await world.newTeam();
  assert.is((await world.call('get', path, undefined, { token: other.token })).body.error.code, 40302);
  assert.is((await world.call('patch', path, { name: 'theirs' }, { token: other.token })).body.error.code, 40302);
  const elsewhere = await world.newWorkspace(world.team.id);
  const limited = await world.newToken(world.team.id, ['workspace:read'], [elsewhere]);
  assert.is((await world.call('get', path, undefined, { token: limited })).body.error.code, 40302);
  const { workspaces } = (await world.call('get', '/api/v1/workspace', undefined, { token: limited })).body;
  assert.equal(
    workspaces.map((one: { id: string }) => one.id),
    [elsewhere],
  );
});

test('a token that is limited to workspaces cannot create others', async () => {
  const limited = await world.newToken(world.team.id, ['workspace:write'], [await world.newWorkspace(world.team.id)]);
  const refused = await world.call('post', '/api/v1/workspace', { name: 'more' }, { token: limited });
  assert.equal([refused.status, refused.body.error.code], [403, 40302]);
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

test('an Idempotency-Key makes repeating a creation safe', async () => {
  const headers = { 'Idempotency-Key': 'create-once' };
  const answers = await Promise.all(
    [1, 2, 3].map(() => world.call('post', '/api/v1/workspace', { name: 'once' }, { headers })),
  );
  for (const answer of answers) {
    assert.is(answer.status, 201, answer.text);
    assert.equal(answer.body, answers[0]!.body);
  }
  const other = await world.call('post', '/api/v1/workspace', { name: 'twice' }, { headers });
  assert.is(other.body.error.code, 40904);
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
