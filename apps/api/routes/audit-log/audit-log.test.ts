import { createHash } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, wireTo, type World } from '../../../../tests/helpers/world.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { inUsableOrder, makeThings, requests, type Things } from '../../tests/helpers/requests.ts';
import { makeKeyText } from '../../../../shared/values/key-text.ts';
import { routes } from '../index.ts';

const PATH = '/api/v1/audit-log';
let world: World;
let things: Things;
const test = suite('audit log');
test.before(async () => {
  world = await makeWorld(['api', 'verify']);
  things = await makeThings(world, world.team.token);
});
test.after(() => world?.stop());

test('every operation that changes something leaves one line: who changed what, by which request', async () => {
  // Of its own: at the end they are deleted.
  const things = await makeThings(world, world.team.token);
  const writing = routes.filter((route) => route.writes && route.path !== '/api/v1/jwt');
  for (const route of inUsableOrder(writing)) {
    const what = `${route.method.toUpperCase()} ${route.path}`;
    const { path = {}, body } = requests[`${route.method} ${route.path}`]!.make(things);
    const filled = route.path.replace(/\{(\w+)\}/g, (_, name: string) => path[name]!);
    const requestId = `audit-${writing.indexOf(route)}`;
    const answer = await world.call(route.method, filled, body, {
      headers: { 'X-Request-Id': requestId, 'Idempotency-Key': requestId },
    });
    assert.ok(answer.status < 300, answer.text);
    const lines = await auditLog(`requestId=${requestId}`);
    // With a workspace go its webhooks, each with a line of its own.
    const [line, ...more] = lines.filter(
      (one: { resource: string }) => !answer.body.workspace || one.resource === 'workspace',
    );
    assert.ok(line, `${what} left no line`);
    assert.equal(more, [], what);
    assert.is(line.operation, what);
    assert.is(line.tokenId, await ownTokenId());
    assert.is(line.requestId, requestId);
    assert.ok(line.before ?? line.after, what);
    const { apiKey, workspace, scope, grant, grantSchedule, billing } = answer.body;
    const made = (apiKey ?? workspace ?? scope ?? grant ?? grantSchedule ?? billing)?.id;
    if (made) assert.is(line.resourceId, made, what);
  }
});

test("a team's first JWT creates its signing key and leaves one line; later JWTs leave none", async () => {
  const { id, token } = await world.newTeam();
  for (let i = 0; i < 2; i++) await must(201, world.call('post', '/api/v1/jwt', { payload: {} }, { token }));
  const lines = (await must(200, world.call('get', PATH, undefined, { token }))).body.auditLog;
  assert.is(lines.length, 1);
  const [key] = await world.sql<[{ kid: string }]>`
    select kid from signing_keys where team_id = ${id} and retired_at is null`;
  assert.equal([lines[0].resource, lines[0].resourceId, lines[0].after], ['signing_key', key.kid, { kid: key.kid }]);
});

test('a line holds the state before and after the change, and a request that changes nothing leaves none', async () => {
  const workspace = await newWorkspace('before');
  const path = `/api/v1/workspace/${workspace.id}`;
  const { body } = await must(200, world.call('patch', path, { name: 'after', defaultRateLimitPerSecond: 5 }));
  await must(200, world.call('patch', path, {}));
  await must(403, world.call('patch', '/api/v1/workspace/ws_01h455vb4pex5vsknk084sn02q', { name: 'x' }));
  const [made, changed, ...more] = await auditLog(`resourceId=${workspace.id}`);
  assert.equal(more, []);
  assert.equal([made.before, made.after], [undefined, workspace]);
  assert.equal([changed.before, changed.after], [workspace, body.workspace]);
  assert.match(changed.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test('a line says from where and by what program the change came, and holds no secret that either carries', async () => {
  const api = await world.start('api', { TRUSTED_PROXIES: '127.0.0.0/8,::1' });
  const at = (url: string, headers: Record<string, string>) =>
    must(201, world.call('post', `${url}/api/v1/workspace`, { name: 'from' }, { headers }));
  const secret = things.keyText;
  const cases: [string, Record<string, string>, string, string | undefined][] = [
    [world.api.url, { 'User-Agent': 'curl/8.14.1' }, '127.0.0.1', 'curl/8.14.1'],
    [world.api.url, { 'X-Forwarded-For': '203.0.113.7', 'User-Agent': 'a' }, '127.0.0.1', 'a'],
    [api.url, { 'X-Forwarded-For': '198.51.100.1, 203.0.113.7', 'User-Agent': 'b' }, '203.0.113.7', 'b'],
    [api.url, { 'X-Forwarded-For': '2001:db8::7', 'User-Agent': `c ${secret}` }, '2001:db8::7', 'c [secret]'],
    [
      api.url,
      { 'X-Forwarded-For': secret, 'User-Agent': `${'d'.repeat(240)} ${secret}` },
      'unknown',
      `${'d'.repeat(240)} [secret]`,
    ],
    [api.url, { 'X-Forwarded-For': '203.0.113.8', 'User-Agent': 'e'.repeat(9_000) }, '203.0.113.8', 'e'.repeat(256)],
    [api.url, { 'X-Forwarded-For': '9'.repeat(5_000), 'User-Agent': 'f' }, 'unknown', 'f'],
  ];
  for (const [url, headers, address, userAgent] of cases) {
    const { workspace } = (await at(url, headers)).body;
    const [line] = await auditLog(`resourceId=${workspace.id}`);
    assert.equal([line.address, line.userAgent, line.actor], [address, userAgent, 'access_token']);
  }
  await api.stop();
  const found = await auditLog('address=203.0.113.7&outcome=changed');
  assert.equal(
    found.map((line: { address: string }) => line.address),
    ['203.0.113.7'],
  );
  assert.not.ok(JSON.stringify(await world.sql`select * from audit_log`).includes(secret.slice(10)));
});

test('no secret of a key or a token is in the log', async () => {
  const key = await must(201, world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: things.workspace }));
  const rotate = `/api/v1/workspace/${things.workspace}/api-key/${key.body.apiKey.id}/rotate`;
  const rotated = await must(200, world.call('post', rotate));
  const token = await must(201, world.call('post', '/api/v1/access-token', { name: 'n', permissions: ['key:read'] }));
  const fields = { workspaceId: things.workspace, customerId: 'c' };
  const link = await must(201, world.call('post', '/api/v1/link-token', fields));
  const stored = JSON.stringify(await world.sql`select * from audit_log`);
  const texts = [key.body.apiKey.key, rotated.body.apiKey.key, token.body.accessToken.token, link.body.linkToken.token];
  for (const text of texts) assert.not.ok(stored.includes((text as string).slice(10)), 'a secret was logged');
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
  assert.not.match(JSON.stringify(await world.sql`select * from audit_log`), new RegExp(secret.slice(4)));
});

test('a line keeps the size and the digest of a long list, and is small itself', async () => {
  const list = Array.from({ length: 1_000 }, (_, i) => `2001:db8:${i.toString(16)}::/64`);
  const workspace = await newWorkspace('long');
  const path = `/api/v1/workspace/${workspace.id}`;
  await must(200, world.call('patch', path, { defaultAllowedIPs: list }));
  await must(200, world.call('patch', path, { defaultAllowedIPs: list.slice(1) }));
  const [, set, changed] = await auditLog(`resourceId=${workspace.id}`);
  const text = JSON.stringify(list);
  const sha256 = createHash('sha256').update(text).digest('hex');
  const kept = { omittedBytes: text.length, items: 1_000, sha256 };
  assert.equal([set.before.defaultAllowedIPs, set.after.defaultAllowedIPs], [[], kept]);
  assert.equal([changed.before.defaultAllowedIPs, changed.after.defaultAllowedIPs.items], [kept, 999]);
  assert.is.not(changed.after.defaultAllowedIPs.sha256, sha256);
  const [row] = await world.sql<[{ bytes: number }]>`
    select max(octet_length(before::text) + octet_length(after::text)) as bytes from audit_log where resource_id = ${workspace.id}`;
  assert.ok(row.bytes < 1_500, `${row.bytes} bytes`);
});

test('a repetition under the same Idempotency-Key leaves no second line', async () => {
  const options = { headers: { 'Idempotency-Key': 'told-once' } };
  const answers = await Promise.all(
    [1, 2, 3].map(() => world.call('post', '/api/v1/workspace', { name: 'once' }, options)),
  );
  assert.is((await auditLog(`resourceId=${answers[0]!.body.workspace.id}`)).length, 1);
});

test('a change and its line are one transaction: neither exists without the other', async () => {
  const { id } = await newWorkspace('whole');
  const state = async () => [
    await world.sql`select name from workspaces where id = ${id}`,
    await world.sql`select count(*)::int as n from audit_log where outcome = 'changed'`,
  ];
  const before = await state();
  await world.sql`revoke insert on audit_log from keytally_api`;
  const unlogged = await world.call('patch', `/api/v1/workspace/${id}`, { name: 'unlogged' });
  await world.sql`grant insert on audit_log to keytally_api`;
  assert.is(unlogged.status, 500);
  assert.equal(await state(), before, 'no change without its line');

  const wire = await wireTo(world.env.REDIS_URL!);
  const api = await world.start('api', { REDIS_URL: wire.url });
  await wire.cut();
  const refused = await world.call('patch', `${api.url}/api/v1/workspace/${id}`, { name: 'refused' });
  await api.stop();
  assert.is(refused.status, 503);
  assert.equal(await state(), before, 'no line without its change');
});

test('lines are only added, never changed or removed', async () => {
  for (const statement of ['update audit_log set before = null', 'delete from audit_log', 'truncate audit_log']) {
    const error = await world.sql.unsafe(statement).then(
      () => undefined,
      (thrown: unknown) => thrown as Error,
    );
    assert.match(error?.message ?? '', /only ever added to/);
  }
});

test('the log is read page by page, and filtered by who, what and when', async () => {
  const { token } = await world.newTeam();
  const other = (
    await must(
      201,
      world.call('post', '/api/v1/access-token', { name: 'o', permissions: ['workspace:write'] }, { token }),
    )
  ).body.accessToken;
  for (const [i, by] of [token, other.token, token, other.token].entries())
    await must(201, world.call('post', '/api/v1/workspace', { name: `w${i}` }, { token: by }));
  const read = async (query: string) =>
    (await must(200, world.call('get', `${PATH}?${query}`, undefined, { token }))).body;
  const names = (lines: { after: { name: string } }[]) => lines.map((line) => line.after.name);

  for (const [order, expected] of Object.entries({
    oldest: ['o', 'w0', 'w1', 'w2', 'w3'],
    newest: ['w3', 'w2', 'w1', 'w0', 'o'],
  })) {
    const paged: string[] = [];
    let cursor = '';
    do {
      const page = await read(`limit=2&order=${order}${cursor && `&cursor=${cursor}`}`);
      paged.push(...names(page.auditLog));
      cursor = page.nextCursor ?? '';
    } while (cursor);
    assert.equal(paged, expected, order);
  }

  assert.equal(names((await read(`tokenId=${other.id}`)).auditLog), ['w1', 'w3']);
  assert.equal(names((await read('resource=access_token')).auditLog), ['o']);
  const [, , third] = (await read('resource=workspace')).auditLog;
  assert.equal(names((await read(`resourceId=${third.resourceId}`)).auditLog), ['w2']);
  const all = (await read('')).auditLog;
  const [first, last] = [all[0], all.at(-1)].map((line: { createdAt: string }) => line.createdAt.slice(0, 10));
  assert.equal((await read(`from=${first}&to=${last}`)).auditLog, all);
  assert.equal((await read('from=2149-01-01')).auditLog, []);
  assert.equal((await read('to=2020-01-01')).auditLog, []);
  for (const [query, field] of [
    ['resource=planet', 'resource'],
    ['from=yesterday', 'from'],
    ['to=2026-02-30', 'to'],
    ['tokenId=%00', 'tokenId'],
    ['order=random', 'order'],
  ]) {
    const refused = await must(400, world.call('get', `${PATH}?${query}`));
    assert.is(refused.body.error.details[0].path, field, refused.text);
  }
});

test.run();

async function auditLog(query: string) {
  return (await must(200, world.call('get', `${PATH}?${query}`))).body.auditLog;
}

async function newWorkspace(name: string) {
  return (await must(201, world.call('post', '/api/v1/workspace', { name }))).body.workspace;
}

async function ownTokenId(): Promise<string> {
  const [row] = await world.sql<[{ id: string }]>`
    select id from access_tokens where team_id = ${world.team.id} and name = 'test' order by id limit 1`;
  return row.id;
}
