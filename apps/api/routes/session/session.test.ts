import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

const OURS = 'https://app.example.com';
const SESSION = '/console/session';
const own = { 'Sec-Fetch-Site': 'same-origin' };
const marked = { ...own, 'X-Keytally-Session': '1' };
let world: World;
const test = suite('sessions');
test.before(async () => {
  world = await makeWorld(['api'], { CORS_ORIGINS: OURS });
});
test.after(() => world?.stop());

const signIn = (token: string, headers: Record<string, string> = marked, url = world.api.url) =>
  world.call('post', url + SESSION, undefined, { token, headers });
const by = (cookie: string, method: string, path: string, body?: unknown, headers: Record<string, string> = marked) =>
  world.call(method, path, body, { token: null, headers: { Cookie: cookie, ...headers } });
const cookieOf = (answer: { headers: Headers }) => answer.headers.get('set-cookie')!.split(';', 1)[0]!;

test('an access token signs in: a cookie that no script reads and no other site sends stands for it for 8 hours', async () => {
  const before = Date.now();
  const answer = await must(201, signIn(world.team.token));
  const cookie = answer.headers.get('set-cookie')!;
  assert.match(cookie, /^keytally=[\w-]{43}; Max-Age=28800; Path=\/; HttpOnly; SameSite=Strict$/);
  const { session } = answer.body;
  assert.equal(session.permissions, permissions);
  assert.is(session.tokenName, 'test');
  const lasts = Date.parse(session.expiresAt) - before;
  assert.ok(lasts > 28_795_000 && lasts < 28_860_000, session.expiresAt);
  assert.equal((await by(cookieOf(answer), 'get', SESSION)).body, answer.body);
  assert.is((await by(cookieOf(answer), 'get', '/api/v1/workspace')).status, 200);
  const [row] = await world.sql`select * from sessions`;
  assert.not.ok(
    JSON.stringify(row).includes(cookieOf(answer).slice('keytally='.length)),
    'the secret is stored nowhere',
  );
});

test('over TLS the cookie is bound to the host and to TLS', async () => {
  const { url } = await world.start('api', { TLS_BY_PROXY: 'true' });
  const answer = await must(201, signIn(world.team.token, marked, url));
  assert.match(
    answer.headers.get('set-cookie')!,
    /^__Host-keytally=[\w-]{43}; .*Path=\/; HttpOnly; SameSite=Strict; Secure$/,
  );
  const bare = cookieOf(answer).replace('__Host-', '');
  assert.is((await by(bare, 'get', url + SESSION)).body.error.code, 40101, 'another name may be set by another host');
  const { host } = new URL(url);
  for (const [scheme, status] of [
    ['https', 200],
    ['http', 403],
  ] as const)
    assert.is(
      (await by(cookieOf(answer), 'get', url + SESSION, undefined, { Origin: `${scheme}://${host}` })).status,
      status,
    );
});

test('a session ends by signing out, whoever has its cookie, and so does its line in the audit log', async () => {
  const { token } = await world.newTeam();
  const cookie = cookieOf(await must(201, signIn(token)));
  const other = cookieOf(await must(201, signIn(token)));
  const ended = await must(200, by(cookie, 'delete', SESSION));
  assert.is(ended.headers.get('set-cookie'), 'keytally=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict');
  await eventually('it is over', async () => (await by(cookie, 'get', SESSION)).status !== 200, 1_000);
  assert.is((await by(cookie, 'get', SESSION)).body.error.code, 40103);
  assert.is((await by(cookie, 'delete', SESSION)).body.error.code, 40103);
  assert.is((await by(other, 'get', SESSION)).status, 200, 'other sessions of the token go on');
  const { auditLog } = (await world.call('get', '/api/v1/audit-log?resource=session', undefined, { token })).body;
  assert.equal(
    auditLog
      .map((line: { before?: object; after?: object }) => [line.before !== undefined, line.after !== undefined])
      .toSorted(),
    [
      [false, true],
      [false, true],
      [true, false],
    ],
  );
});

test('a session ends within a second after its token was revoked or expired, and 8 hours after it began', async () => {
  const admin = world.team.token;
  const make = async () =>
    (
      await must(
        201,
        world.call('post', '/api/v1/access-token', { name: 'n', permissions: ['key:read'] }, { token: admin }),
      )
    ).body.accessToken;
  const ends: Record<string, (id: string) => Promise<unknown>> = {
    revoked: (id) => must(200, world.call('delete', `/api/v1/access-token/${id}`)),
    expired: (id) => world.sql`update access_tokens set expires_at = 1 where id = ${id}`,
    over: (id) => world.sql`update sessions set expires_at = now() where token_id = ${id}`,
  };
  for (const [how, end] of Object.entries(ends)) {
    const { id, token } = await make();
    const cookie = cookieOf(await must(201, signIn(token)));
    assert.is((await by(cookie, 'get', SESSION)).status, 200);
    await end(id);
    await eventually(`it is ${how}`, async () => (await by(cookie, 'get', SESSION)).status !== 200, 1_000);
    assert.is((await by(cookie, 'get', SESSION)).body.error.code, 40103, how);
  }
});

test("a session may do what its token may, in that token's workspaces, and no more", async () => {
  const { id: teamId, token: admin } = await world.newTeam();
  const [ours, other] = [await world.newWorkspace(teamId), await world.newWorkspace(teamId)];
  const token = await world.newToken(teamId, ['workspace:read', 'key:read'], [ours]);
  const cookie = cookieOf(await must(201, signIn(token)));
  const { session } = (await by(cookie, 'get', SESSION)).body;
  assert.equal(session.permissions, ['workspace:read', 'key:read']);
  assert.equal(session.workspaceIds, [ours]);
  assert.is((await by(cookie, 'get', `/api/v1/workspace/${ours}`)).status, 200);
  assert.is((await by(cookie, 'get', `/api/v1/workspace/${other}`)).body.error.code, 40302);
  assert.is((await by(cookie, 'post', '/api/v1/workspace', { name: 'n' })).body.error.code, 40301);
  const { auditLog } = await eventually('the refused attempt is told', async () => {
    const { body } = await world.call('get', '/api/v1/audit-log?outcome=denied', undefined, { token: admin });
    return body.auditLog.length > 0 ? body : undefined;
  });
  assert.is(auditLog[0].tokenId, session.tokenId);
});

test('permissions are read at each request: what its token may no more, a session may no more', async () => {
  const { id: teamId } = await world.newTeam();
  const token = await world.newToken(teamId, ['workspace:read', 'audit:read']);
  const cookie = cookieOf(await must(201, signIn(token)));
  const { session } = (await by(cookie, 'get', SESSION)).body;
  assert.is((await by(cookie, 'get', '/api/v1/audit-log')).status, 200);
  await world.sql`update access_tokens set permissions = '{workspace:read}' where id = ${session.tokenId}`;
  await eventually('it is in force', async () => (await by(cookie, 'get', '/api/v1/audit-log')).status === 403, 1_000);
  assert.equal((await by(cookie, 'get', SESSION)).body.session.permissions, ['workspace:read']);
  assert.is((await by(cookie, 'get', '/api/v1/workspace')).status, 200);
});

test('a cookie counts only without an Authorization header', async () => {
  const cookie = cookieOf(await must(201, signIn(world.team.token)));
  for (const Authorization of ['', 'Bearer', 'Bearer nonsense', 'Basic YTpi'])
    assert.is(
      (await by(cookie, 'get', '/api/v1/workspace', undefined, { ...marked, Authorization })).status,
      401,
      Authorization,
    );
});

test('a cookie counts only from a page of the same origin, and so does signing in', async () => {
  const cookie = cookieOf(await must(201, signIn(world.team.token)));
  const { origin, port } = new URL(world.api.url);
  const foreign: Record<string, string>[] = [
    { 'Sec-Fetch-Site': 'cross-site' },
    { 'Sec-Fetch-Site': 'same-site' },
    { 'Sec-Fetch-Site': 'none' },
    { 'Sec-Fetch-Site': 'same-site', Origin: origin },
    { Origin: 'https://evil.example' },
    { Origin: 'null' },
    { Origin: `http://127.0.0.1:${Number(port) + 1}` },
    { Origin: `http://localhost:${port}` },
    { Origin: OURS },
    { Origin: OURS, 'Sec-Fetch-Site': 'cross-site' },
  ];
  for (const headers of foreign) {
    const name = JSON.stringify(headers);
    for (const more of [{}, { 'X-Keytally-Session': '1' }]) {
      const read = await by(cookie, 'get', '/api/v1/workspace', undefined, { ...headers, ...more });
      assert.is(read.body.error.code, 40308, name);
      assert.is(read.headers.get('access-control-allow-credentials'), null);
      assert.is(
        (await by(cookie, 'post', '/api/v1/workspace', { name: 'n' }, { ...headers, ...more })).body.error.code,
        40308,
        name,
      );
      const signed = await signIn(world.team.token, { ...headers, ...more });
      assert.is(signed.body.error.code, 40308, name);
      assert.is(signed.headers.get('set-cookie'), null);
    }
  }
  for (const headers of [{ Origin: origin }, own]) {
    assert.is((await by(cookie, 'get', SESSION, undefined, headers)).status, 200);
    assert.is((await signIn(world.team.token, { ...headers, 'X-Keytally-Session': '1' })).status, 201);
  }
  // A browser over plain HTTP says neither in a GET of its own page; a page of another origin can't send our header.
  assert.is((await by(cookie, 'get', SESSION, undefined, { 'X-Keytally-Session': '1' })).status, 200);
  assert.is((await by(cookie, 'get', SESSION, undefined, {})).body.error.code, 40308);
});

test('every change needs the header that no page of another origin can send', async () => {
  const cookie = cookieOf(await must(201, signIn(world.team.token)));
  const { id } = (await must(201, by(cookie, 'post', '/api/v1/workspace', { name: 'n' }))).body.workspace;
  for (const headers of [own, { ...own, 'X-Keytally-Session': '' }, { ...own, 'X-Keytally-Session': 'true' }]) {
    const path = `/api/v1/workspace/${id}`;
    for (const [method, at, body] of [
      ['post', '/api/v1/workspace', { name: 'n' }],
      ['patch', path, { name: 'm' }],
      ['delete', path, undefined],
      ['delete', SESSION, undefined],
    ] as const)
      assert.is((await by(cookie, method, at, body, headers)).body.error.code, 40309, `${method} ${at}`);
    assert.is((await signIn(world.team.token, headers)).body.error.code, 40309);
    assert.is((await by(cookie, 'get', path, undefined, headers)).status, 200, 'reading needs none');
  }
  const asked = await fetch(`${world.api.url}/api/v1/workspace`, {
    method: 'OPTIONS',
    headers: {
      Origin: OURS,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'x-keytally-session',
    },
  });
  assert.is(asked.status, 204);
  assert.not.match(asked.headers.get('access-control-allow-headers')!, /x-keytally-session/i);
});

test('a verification goes by an access token alone', async () => {
  const cookie = cookieOf(await must(201, signIn(world.team.token)));
  assert.is((await by(cookie, 'post', '/api/v1/api-key/verify', { key: 'k' })).body.error.code, 40101);
});

test("answers kept for an Idempotency-Key open with the session's secret alone", async () => {
  const { token } = await world.newTeam();
  const [first, second] = [cookieOf(await must(201, signIn(token))), cookieOf(await must(201, signIn(token)))];
  const make = (cookie: string) =>
    by(cookie, 'post', '/api/v1/workspace', { name: 'n' }, { ...marked, 'Idempotency-Key': 'once' });
  const made = await must(201, make(first));
  assert.is((await must(201, make(first))).text, made.text);
  const others = [await must(201, make(second))];
  others.push(
    await must(
      201,
      world.call('post', '/api/v1/workspace', { name: 'n' }, { token, headers: { 'Idempotency-Key': 'once' } }),
    ),
  );
  assert.is(new Set([made, ...others].map((one) => one.body.workspace.id)).size, 3, 'nobody else gets the answer');
});

test('failed tries to sign in, and guessed cookies, are limited like other failures; a valid token passes', async () => {
  const { url } = await world.start('api', { FAILED_AUTH_PER_MINUTE: '100', TRUSTED_PROXIES: '127.0.0.1' });
  const headers = { ...marked, 'X-Forwarded-For': '203.0.113.9' };
  const unknown = `${world.team.token.slice(0, -1)}${world.team.token.endsWith('0') ? '1' : '0'}`;
  const codes = new Map<number, number>();
  const count = ({ body }: { body: { error: { code: number } } }) =>
    void codes.set(body.error.code, (codes.get(body.error.code) ?? 0) + 1);
  // Sixty at once: they count for a minute, which a busy machine takes for one after the other.
  const sixty = <T>(ask: (i: number) => Promise<T>) => Promise.all(Array.from({ length: 60 }, (_, i) => ask(i)));
  for (const answer of await sixty(() => signIn(unknown, headers, url))) count(answer);
  const guess = (i: number) => by(`keytally=${'A'.repeat(41)}${10 + i}`, 'get', url + SESSION, undefined, headers);
  for (const answer of await sixty(guess)) count(answer);
  assert.equal(Object.fromEntries(codes), { 40102: 60, 40103: 40, 42901: 20 });
  assert.is((await signIn(world.team.token, headers, url)).status, 201);
});

test('a token has at most 20 sessions: one more ends the oldest', async () => {
  const { token } = await world.newTeam();
  const cookies: string[] = [];
  for (let i = 0; i < 21; i++) cookies.push(cookieOf(await must(201, signIn(token))));
  assert.is((await by(cookies[0]!, 'get', SESSION)).body.error.code, 40103);
  for (const cookie of cookies.slice(1)) assert.is((await by(cookie, 'get', SESSION)).status, 200);
});

test('a session makes no other session', async () => {
  const cookie = cookieOf(await must(201, signIn(world.team.token)));
  assert.is((await by(cookie, 'post', SESSION)).body.error.code, 40101);
  assert.is(
    (await world.call('delete', SESSION, undefined, { headers: marked })).body.error.code,
    40103,
    'nor ends one',
  );
});

test.run();
