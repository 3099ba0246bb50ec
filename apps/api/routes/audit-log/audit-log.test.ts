import { createHash } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { joinWorld, wireTo } from '../../../../tests/helpers/world.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { callsOf, column, columns, refused } from '../../tests/helpers/calls.ts';
import { makeKeyText } from '../../../../shared/values/key-text.ts';

// That each operation leaves one line, which tells no secret that it made, is in tests/matrix.test.ts.
const PATH = '/api/v1/audit-log';
const world = await joinWorld();
const { read, make, change } = callsOf(world);
const auditLog = (query: string) => read(`${PATH}?${query}`);
const newWorkspace = (name: string) => make('/api/v1/workspace', { name });

test("a team's first JWT creates its signing key and leaves one line; later JWTs leave none", async () => {
  const { id, token } = await world.newTeam();
  for (let i = 0; i < 2; i++) await callsOf(world, token).make('/api/v1/jwt', { payload: {} });
  const [key] = await world.sql<[{ kid: string }]>`
    select kid from signing_keys where team_id = ${id} and retired_at is null`;
  const lines = await world.sql`select resource, resource_id, after from audit_log where team_id = ${id}`;
  assert.equal([...lines], [{ resource: 'signing_key', resourceId: key.kid, after: { kid: key.kid } }]);
});

test('a line holds the state before and after the change, and a request that changes nothing leaves none', async () => {
  const workspace = await newWorkspace('before');
  const path = `/api/v1/workspace/${workspace.id}`;
  const changed = await change(path, { name: 'after', defaultRateLimitPerSecond: 5 });
  await change(path, {});
  const lines = await auditLog(`resourceId=${workspace.id}`);
  assert.equal(columns(lines, 'before', 'after'), [
    [undefined, workspace],
    [workspace, changed],
  ]);
});

test('a line says from where and by what program the change came, and holds no secret that either carries', async () => {
  const { url } = await world.start('api', { TRUSTED_PROXIES: '127.0.0.0/8,::1' });
  const secret = makeKeyText('key', 7);
  const long = 'd'.repeat(240);
  for (const [at, from, by, address, userAgent] of [
    [world.api.url, '203.0.113.7', 'curl/8.14.1', '127.0.0.1', 'curl/8.14.1'],
    [url, '198.51.100.1, 203.0.113.7', 'b', '203.0.113.7', 'b'],
    [url, '2001:db8::7', `c ${secret}`, '2001:db8::7', 'c [secret]'],
    [url, secret, `${long} ${secret}`, 'unknown', `${long} [secret]`],
    [url, '9'.repeat(5_000), 'e'.repeat(9_000), 'unknown', 'e'.repeat(256)],
  ] as const) {
    const headers = { 'X-Forwarded-For': from, 'User-Agent': by };
    const { id } = await make(`${at}/api/v1/workspace`, { name: 'from' }, headers);
    const [line] = await auditLog(`resourceId=${id}`);
    assert.equal([line.address, line.userAgent, line.actor], [address, userAgent, 'access_token']);
  }
  assert.is((await auditLog('address=203.0.113.7&outcome=changed')).length, 1);
  assert.not.ok((await storedLines()).includes(secret.slice(10)));
});

test('a secret that a client put into a name, an id or metadata is hidden in the log', async () => {
  const secret = makeKeyText('key', 7);
  const encoded = secret.replace('_', '%5F');
  const fields = { customerId: encoded, metadata: { note: [`see ${secret}`] }, externalMeterId: secret };
  const { id: workspaceId } = await newWorkspace('of secrets');
  const { id } = await make('/api/v1/api-key', { name: `of ${secret}`, workspaceId, ...fields });
  const [{ after }] = await auditLog(`resourceId=${id}`);
  assert.equal([after.name, after.customerId, after.metadata], ['of [secret]', '[secret]', { note: ['see [secret]'] }]);
  await change(`/api/v1/workspace/${workspaceId}/api-key/${id}`, { name: `of ${makeKeyText('key', 7)}` });
  assert.is((await auditLog(`resourceId=${id}`)).length, 2, 'another secret is a change');
  assert.not.ok((await storedLines()).includes(secret.slice(4)));
});

test('a line keeps the size and the digest of a long list, and is small itself', async () => {
  const list = Array.from({ length: 1_000 }, (_, i) => `2001:db8:${i.toString(16)}::/64`);
  const { id } = await newWorkspace('long');
  for (const defaultAllowedIPs of [list, list.slice(1)]) await change(`/api/v1/workspace/${id}`, { defaultAllowedIPs });
  const lines = await auditLog(`resourceId=${id}`);
  const kept = (of: string[]) => {
    const text = JSON.stringify(of);
    return { omittedBytes: text.length, items: of.length, sha256: createHash('sha256').update(text).digest('hex') };
  };
  const [, first, second] = lines;
  assert.equal(column([first.before, first.after], 'defaultAllowedIPs'), [[], kept(list)]);
  assert.equal(column([second.before, second.after], 'defaultAllowedIPs'), [kept(list), kept(list.slice(1))]);
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
  await refused(50301, rename(url, 'refused'));
  assert.equal(await state(), before, 'no line without its change');
});

test('the log is read page by page in either order, and filtered by who and what', async () => {
  const admin = callsOf(world, (await world.newTeam()).token);
  const other = await admin.make('/api/v1/access-token', { name: 'o', permissions: ['workspace:write'] });
  const by = callsOf(world, other.token);
  const ids: string[] = [];
  for (const [i, caller] of [admin, by, admin, by].entries())
    ids.push((await caller.make('/api/v1/workspace', { name: `w${i}` })).id);
  for (const [query, names] of [
    ['order=oldest', 'o w0 w1 w2 w3'],
    ['order=newest', 'w3 w2 w1 w0 o'],
    [`tokenId=${other.id}`, 'w1 w3'],
    ['resource=access_token', 'o'],
    [`resourceId=${ids[2]}`, 'w2'],
    ['from=2149-01-01', ''],
    ['to=2020-01-01', ''],
  ] as const) {
    const pages = await readPages<any>(2, (page) => admin.ask('get', `${PATH}?${page}&${query}`));
    assert.is(column(column(pages.flat(), 'after'), 'name').join(' '), names, query);
  }
});

async function storedLines(): Promise<string> {
  return JSON.stringify(await world.sql`select * from audit_log where team_id = ${world.team.id}`);
}
