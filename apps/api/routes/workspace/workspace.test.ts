import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/workspace';
const world = await joinWorld();

test('a workspace is created, read, listed and changed', async () => {
  const { id: teamId, token } = await world.newTeam();
  const call = (method: string, path: string, body?: object) => world.call(method, path, body, { token });
  const { workspace } = (await must(201, call('post', PATH, { name: 'Acme' }))).body;
  const { id, createdAt } = workspace;
  assert.match(id, /^ws_[0-9a-z]{26}$/);
  const fields = { id, name: 'Acme', teamId, defaultAllowedIPs: [], keepClientAddresses: true, timezone: 'UTC' };
  assert.equal(workspace, { ...fields, createdAt, updatedAt: createdAt });

  const path = `${PATH}/${id}`;
  assert.equal((await call('get', path)).body, { workspace });
  const changes = { defaultKeyPrefix: 'acme', defaultAllowedIPs: ['10.0.0.0/8'], timezone: 'Asia/Kathmandu' };
  const more = { defaultRateLimitPerSecond: 5, defaultExpiration: 60 };
  const changed = (await must(200, call('patch', path, { ...changes, ...more }))).body.workspace;
  assert.equal(changed, { ...workspace, ...changes, ...more, updatedAt: changed.updatedAt });
  const cleared = (await must(200, call('patch', path, { defaultKeyPrefix: null, defaultAllowedIPs: null }))).body
    .workspace;
  const { defaultKeyPrefix: _, ...kept } = changed;
  assert.equal(cleared, { ...kept, defaultAllowedIPs: [], updatedAt: cleared.updatedAt });
  assert.equal((await call('get', PATH)).body.workspaces, [cleared]);
});

test('each list is read page by page, each item once', async () => {
  const { id, token } = await world.newTeam();
  const make = (path: string, body: object) => must(201, world.call('post', path, body, { token }));
  const names = ['n0', 'n1', 'n2', 'n3', 'n4'];
  for (const name of names) await make(PATH, { name });
  for (const name of names) await make('/api/v1/access-token', { name, permissions: ['key:read'] });
  const workspaceId = await world.newWorkspace(id);
  for (const name of names) await make('/api/v1/api-key', { name, workspaceId });
  for (const [path, expected] of [
    [PATH, [...names, 'elsewhere']],
    ['/api/v1/access-token', ['test', ...names]],
    [`${PATH}/${workspaceId}/api-keys`, names],
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
  const wrong = ['0', '201', '-1', '1.5', '1e2', '0x10', '%201', '', '9'.repeat(400), '1&limit=2'];
  for (const limit of wrong) {
    const { body } = await must(400, world.call('get', `${PATH}?limit=${limit}`));
    assert.is(body.error.details[0].path, 'limit', limit);
  }
  await must(200, world.call('get', `${PATH}?limit=200`));
});

test('a cursor of another list is a 400', async () => {
  const make = async (token: string) => {
    const { workspace } = (await must(201, world.call('post', PATH, { name: 'w' }, { token }))).body;
    for (let i = 0; i < 2; i++)
      await must(201, world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id }, { token }));
    return `${PATH}/${workspace.id}/api-keys`;
  };
  const other = await world.newTeam();
  const [first, second] = [await make(world.team.token), await make(world.team.token)];
  const foreign = await make(other.token);
  const cursorOf = async (path: string, token = world.team.token): Promise<string> =>
    (await must(200, world.call('get', `${path}?limit=1`, undefined, { token }))).body.nextCursor;
  const own = await cursorOf(first);
  await must(200, world.call('get', `${first}?cursor=${own}`));
  for (const [path, cursor] of [
    [first, await cursorOf(second)],
    [first, await cursorOf(foreign, other.token)],
    [first, await cursorOf(PATH)],
    [first, Buffer.from('key_01h455vb4pex5vsknk084sn02q').toString('base64url')],
    [first, `${own}A`],
    [first, 'x'],
    [PATH, own],
    ['/api/v1/access-token', own],
  ] as const)
    assert.is((await world.call('get', `${path}?cursor=${cursor}`)).body.error?.code, 40007, `${path} ${cursor}`);
});

test('an empty PATCH changes nothing', async () => {
  const make = async (path: string, body: object) => {
    const made = Object.values((await must(201, world.call('post', path, body))).body)[0];
    return made as { id: string; key?: string; updatedAt: string };
  };
  const workspace = await make(PATH, { name: 'still' });
  const [path, workspaceId] = [`${PATH}/${workspace.id}`, workspace.id];
  const scope = await make(`${path}/scope`, { name: 's', representation: 's' });
  const { key: _, ...apiKey } = await make('/api/v1/api-key', { name: 'k', workspaceId });
  const billing = await make('/api/v1/customer-billing', { workspaceId, externalMeterId: 'm' });
  for (const [at, expected] of [
    [path, { workspace }],
    [`${path}/scope/${scope.id}`, { scope }],
    [`${path}/api-key/${apiKey.id}`, { apiKey }],
    [`/api/v1/customer-billing/${billing.id}`, { billing }],
  ] as const)
    assert.equal((await world.call('patch', at, {})).body, expected);
  const granted = await world.call('patch', `${path}/api-key/${apiKey.id}`, { scopes: [{ representation: 's' }] });
  assert.ok(granted.body.apiKey.updatedAt > apiKey.updatedAt, 'scopes alone are a change too');
});

test('a time zone must be one that is known', async () => {
  const id = await world.newWorkspace(world.team.id);
  for (const timezone of ['Mars/Base', '+02:00', 'UTC; drop'])
    for (const asked of [
      world.call('patch', `${PATH}/${id}`, { timezone }),
      world.call('post', PATH, { name: 'w', timezone }),
    ])
      assert.is((await must(400, asked)).body.error.details[0].path, '/timezone', timezone);
});

test('a kept refusal is answered again, with the request id of the repetition', async () => {
  const body = { name: 'k', workspaceId: 'ws_01h455vb4pex5vsknk084sn02q', expiresAt: 1 };
  const create = (id: string) =>
    world.call('post', '/api/v1/api-key', body, { headers: { 'Idempotency-Key': 'refused', 'X-Request-Id': id } });
  const [first, again] = [await create('first'), await create('again')];
  assert.is(first.body.error.requestId, 'first');
  assert.equal(again.body.error, { ...first.body.error, requestId: 'again' });
  assert.equal([again.status, again.headers.get('x-request-id')], [403, 'again']);
});

test('a name that people see is not blank and hides nothing, and letters, emoji and joined scripts are taken', async () => {
  const status = async (name: string) => (await world.call('post', '/api/v1/workspace', { name })).status;
  for (const name of [
    ' ',
    '\u3000 ',
    'Ac\u200bme',
    '\u202eemcA',
    'Acme\u2066',
    'Ac\u200dme',
    '\ufeffAcme',
    '\u00ad',
    '\u200d',
    '\u3164',
  ])
    assert.is(await status(name), 400, JSON.stringify(name));
  for (const name of [
    'A',
    ' Acme GmbH & Co. ',
    'naïve 日本',
    '👩\u200d💻 lab',
    '❤️\u200d🔥',
    'می\u200cخواهم',
    'שלום',
    'क्\u200dष',
    '$',
  ])
    assert.is(await status(name), 201, JSON.stringify(name));
});
