import { createHash } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { joinWorld, wireTo } from '../../../../tests/helpers/world.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { makeThings } from '../../tests/helpers/requests.ts';
import { makeKeyText } from '../../../../shared/values/key-text.ts';

const PATH = '/api/v1/audit-log';
const world = await joinWorld();
const things = await makeThings(world, world.team.token);

test("a team's first JWT creates its signing key and leaves one line; later JWTs leave none", async () => {
  const { id, token } = await world.newTeam();
  for (let i = 0; i < 2; i++) await must(201, world.call('post', '/api/v1/jwt', { payload: {} }, { token }));
  const [key] = await world.sql<[{ kid: string }]>`
    select kid from signing_keys where team_id = ${id} and retired_at is null`;
  const lines = await world.sql`select resource, resource_id, after from audit_log where team_id = ${id}`;
  assert.equal([...lines], [{ resource: 'signing_key', resourceId: key.kid, after: { kid: key.kid } }]);
});

test('a line holds the state before and after the change, and a request that changes nothing leaves none', async () => {
  const workspace = await newWorkspace('before');
  const path = `/api/v1/workspace/${workspace.id}`;
  const { body } = await must(200, world.call('patch', path, { name: 'after', defaultRateLimitPerSecond: 5 }));
  await must(200, world.call('patch', path, {}));
  const [made, changed, ...more] = await auditLog(`resourceId=${workspace.id}`);
  assert.equal(more, []);
  assert.equal([made.before, made.after], [undefined, workspace]);
  assert.equal([changed.before, changed.after], [workspace, body.workspace]);
  assert.match(changed.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test('a line says from where and by what program the change came, and holds no secret that either carries', async () => {
  const { url } = await world.start('api', { TRUSTED_PROXIES: '127.0.0.0/8,::1' });
  const secret = things.keyText;
  const long = 'd'.repeat(240);
  for (const [at, from, by, address, userAgent] of [
    [world.api.url, '203.0.113.7', 'curl/8.14.1', '127.0.0.1', 'curl/8.14.1'],
    [url, '198.51.100.1, 203.0.113.7', 'b', '203.0.113.7', 'b'],
    [url, '2001:db8::7', `c ${secret}`, '2001:db8::7', 'c [secret]'],
    [url, secret, `${long} ${secret}`, 'unknown', `${long} [secret]`],
    [url, '9'.repeat(5_000), 'e'.repeat(9_000), 'unknown', 'e'.repeat(256)],
  ] as const) {
    const headers = { 'X-Forwarded-For': from, 'User-Agent': by };
    const made = await must(201, world.call('post', `${at}/api/v1/workspace`, { name: 'from' }, { headers }));
    const [line] = await auditLog(`resourceId=${made.body.workspace.id}`);
    assert.equal([line.address, line.userAgent, line.actor], [address, userAgent, 'access_token']);
  }
  assert.is((await auditLog('address=203.0.113.7&outcome=changed')).length, 1);
  assert.not.ok((await storedLines()).includes(secret.slice(10)));
});

test('no secret of a key or a token is in the log', async () => {
  const make = async (status: number, path: string, body?: object) =>
    Object.values((await must(status, world.call('post', path, body))).body)[0] as Record<string, string>;
  const workspaceId = things.workspace;
  const key = await make(201, '/api/v1/api-key', { name: 'k', workspaceId });
  const rotated = await make(200, `/api/v1/workspace/${workspaceId}/api-key/${key.id}/rotate`);
  const token = await make(201, '/api/v1/access-token', { name: 'n', permissions: ['key:read'] });
  const link = await make(201, '/api/v1/link-token', { workspaceId, customerId: 'c' });
  const stored = await storedLines();
  for (const text of [key.key, rotated.key, token.token, link.token]) assert.not.ok(stored.includes(text!.slice(10)));
});

test('a secret that a client put into a name, an id or metadata is hidden in the log', async () => {
  const secret = makeKeyText('key', 7);
  const encoded = secret.replace('_', '%5F');
  const fields = { customerId: encoded, metadata: { note: [`see ${secret}`] }, externalMeterId: secret };
  const body = { name: `of ${secret}`, workspaceId: things.workspace, ...fields };
  const { id } = (await must(201, world.call('post', '/api/v1/api-key', body))).body.apiKey;
  const [{ after }] = await auditLog(`resourceId=${id}`);
  assert.equal([after.name, after.customerId, after.metadata], ['of [secret]', '[secret]', { note: ['see [secret]'] }]);
  const path = `/api/v1/workspace/${things.workspace}/api-key/${id}`;
  await must(200, world.call('patch', path, { name: `of ${makeKeyText('key', 7)}` }));
  assert.is((await auditLog(`resourceId=${id}`)).length, 2, 'another secret is a change');
  assert.not.ok((await storedLines()).includes(secret.slice(4)));
});

test('a line keeps the size and the digest of a long list, and is small itself', async () => {
  const list = Array.from({ length: 1_000 }, (_, i) => `2001:db8:${i.toString(16)}::/64`);
  const workspace = await newWorkspace('long');
  const path = `/api/v1/workspace/${workspace.id}`;
  await must(200, world.call('patch', path, { defaultAllowedIPs: list }));
  await must(200, world.call('patch', path, { defaultAllowedIPs: list.slice(1) }));
  const lines = await auditLog(`resourceId=${workspace.id}`);
  const kept = (of: string[]) => {
    const text = JSON.stringify(of);
    return { omittedBytes: text.length, items: of.length, sha256: createHash('sha256').update(text).digest('hex') };
  };
  assert.equal(
    lines.slice(1).map(({ before, after }: any) => [before.defaultAllowedIPs, after.defaultAllowedIPs]),
    [
      [[], kept(list)],
      [kept(list), kept(list.slice(1))],
    ],
  );
  assert.ok(JSON.stringify(lines).length < 5_000);
});

test('a change and its line are one transaction: neither exists without the other', async () => {
  const { id } = await newWorkspace('whole');
  const rename = (url: string, name: string) => world.call('patch', `${url}/api/v1/workspace/${id}`, { name });
  const state = async () => [
    await world.sql`select name from workspaces where id = ${id}`,
    await world.sql`select from audit_log where resource_id = ${id}`,
  ];
  const before = await state();
  await world.sql.unsafe(`
    create function refuse_line() returns trigger language plpgsql as $$ begin raise exception 'refused by a test'; end $$;
    create trigger refused before insert on audit_log for each row when (new.resource_id = '${id}') execute function refuse_line()`);
  const unlogged = await rename(world.api.url, 'unlogged');
  await world.sql`drop function refuse_line cascade`;
  assert.is(unlogged.status, 500);
  assert.equal(await state(), before, 'no change without its line');

  const wire = await wireTo(world.env.REDIS_URL!);
  const { url } = await world.start('api', { REDIS_URL: wire.url });
  await wire.cut();
  assert.is((await rename(url, 'refused')).status, 503);
  assert.equal(await state(), before, 'no line without its change');
});

test('the log is read page by page in either order, and filtered by who and what', async () => {
  const { token } = await world.newTeam();
  const post = async (path: string, body: object, by: string) =>
    Object.values((await must(201, world.call('post', path, body, { token: by }))).body)[0] as Record<string, string>;
  const other = await post('/api/v1/access-token', { name: 'o', permissions: ['workspace:write'] }, token);
  const ids: string[] = [];
  for (const [i, by] of [token, other.token!, token, other.token!].entries())
    ids.push((await post('/api/v1/workspace', { name: `w${i}` }, by)).id!);
  for (const [query, names] of [
    ['order=oldest', 'o w0 w1 w2 w3'],
    ['order=newest', 'w3 w2 w1 w0 o'],
    [`tokenId=${other.id}`, 'w1 w3'],
    ['resource=access_token', 'o'],
    [`resourceId=${ids[2]}`, 'w2'],
    ['from=2149-01-01', ''],
    ['to=2020-01-01', ''],
  ] as const) {
    const pages = await readPages<{ after: { name: string } }>(2, (page) =>
      world.call('get', `${PATH}?${page}&${query}`, undefined, { token }),
    );
    const found = pages.flat().map(({ after }) => after.name);
    assert.is(found.join(' '), names, query);
  }
});

async function auditLog(query: string) {
  return (await must(200, world.call('get', `${PATH}?${query}`))).body.auditLog;
}

/** All lines of our team as they are stored. */
async function storedLines(): Promise<string> {
  return JSON.stringify(await world.sql`select * from audit_log where team_id = ${world.team.id}`);
}

async function newWorkspace(name: string) {
  return (await must(201, world.call('post', '/api/v1/workspace', { name }))).body.workspace;
}
