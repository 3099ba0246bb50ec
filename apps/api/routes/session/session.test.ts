import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { callsOf, joinWorld, must, refused } from '../../tests/helpers/calls.ts';
import { callsByCookie, cookieOf, marked, own } from '../../tests/helpers/cookies.ts';

const OURS = 'https://app.example.com';
const SESSION = '/console/session';
const world = await joinWorld();
const { ask, make, remove } = callsOf(world);
const by = callsByCookie(world);
// An api behind a proxy with TLS, which lets pages of another origin in.
const secure = (await world.start('api', { TLS_BY_PROXY: 'true', CORS_ORIGINS: OURS })).url;

const signIn = (token: string, headers: Record<string, string> = marked, url = world.api.url) =>
  world.call('post', url + SESSION, undefined, { token, headers });
const session = async (token = world.team.token, url = world.api.url) =>
  cookieOf(await must(201, signIn(token, marked, url)));
/** Asks the api that has not seen the session yet: one that has remembers it for half a second. */
const byOther = (cookie: string, method: string, path: string) => by(`__Host-${cookie}`, method, secure + path);

test('an access token signs in: a cookie that no script reads and no other site sends stands for it for 8 hours', async () => {
  const before = Date.now();
  const answer = await must(201, signIn(world.team.token));
  const cookie = answer.headers.get('set-cookie')!;
  assert.match(cookie, /^keytally=[\w-]{43}; Max-Age=28800; Path=\/; HttpOnly; SameSite=Strict$/);
  const { session } = answer.body;
  assert.equal([session.permissions, session.tokenName], [permissions, 'test']);
  const lasts = Date.parse(session.expiresAt) - before;
  assert.ok(lasts > 28_795_000 && lasts < 28_860_000, session.expiresAt);
  assert.equal((await by(cookieOf(answer), 'get', SESSION)).body, answer.body);
  assert.is((await by(cookieOf(answer), 'get', '/api/v1/workspace')).status, 200);
  const rows = await world.sql`select * from sessions where token_id = ${session.tokenId}`;
  assert.not.ok(JSON.stringify(rows).includes(cookieOf(answer).slice('keytally='.length)), 'its secret is not stored');
});

test('a session ends by signing out, with its token, and 8 hours after it began', async () => {
  const ends: Record<string, (id: string, cookie: string) => Promise<unknown>> = {
    'signed out': async (_, cookie) => {
      const { headers } = await must(200, by(cookie, 'delete', SESSION));
      assert.is(headers.get('set-cookie'), 'keytally=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict');
    },
    'its token revoked': (id) => remove(`/api/v1/access-token/${id}`),
    'its token expired': (id) => world.sql`update access_tokens set expires_at = 1 where id = ${id}`,
    over: (id) => world.sql`update sessions set expires_at = now() where token_id = ${id}`,
  };
  for (const [how, end] of Object.entries(ends)) {
    const { id, token } = await make('/api/v1/access-token', { name: 'n', permissions: ['key:read'] });
    const [cookie, other] = [await session(token), await session(token)];
    await must(200, by(cookie, 'get', SESSION));
    await end(id, cookie);
    await refused(40103, byOther(cookie, 'get', SESSION), how);
    assert.is((await byOther(other, 'get', SESSION)).status, how === 'signed out' ? 200 : 401, how);
    // A change asks the database, whatever is remembered.
    if (how === 'its token revoked') assert.is((await by(cookie, 'delete', SESSION)).status, 401);
  }
});

test("a session may do what its token may, in that token's workspaces, and no more", async () => {
  const teamId = world.team.id;
  const [ours, other] = [await world.newWorkspace(teamId), await world.newWorkspace(teamId)];
  const token = await world.newToken(teamId, ['workspace:read', 'key:read'], [ours]);
  const cookie = await session(token);
  const told = (await by(cookie, 'get', SESSION)).body.session;
  assert.equal([told.permissions, told.workspaceIds], [['workspace:read', 'key:read'], [ours]]);
  await must(200, by(cookie, 'get', `/api/v1/workspace/${ours}`));
  await refused(40302, by(cookie, 'get', `/api/v1/workspace/${other}`));
  await refused(40301, by(cookie, 'post', '/api/v1/workspace', { name: 'n' }));
  // Permissions are read anew: what its token may no more, it may no more.
  await world.sql`update access_tokens set permissions = '{key:read}' where id = ${told.tokenId}`;
  await refused(40301, byOther(cookie, 'get', `/api/v1/workspace/${ours}`));
  assert.equal((await byOther(cookie, 'get', SESSION)).body.session.permissions, ['key:read']);
});

// Which requests count is in apps/api/http/session-cookie.test.ts.
test('pages of other origins neither use a session nor sign in, and no change is made without the header of our page', async () => {
  const cookie = await session(world.team.token, secure);
  const workspaces = `${secure}/api/v1/workspace`;
  for (const [code, headers] of Object.entries({ 40308: { Origin: OURS, 'X-Keytally-Session': '1' }, 40309: own })) {
    const written = await by(cookie, 'post', workspaces, { name: 'n' }, headers);
    const signed = await signIn(world.team.token, headers, secure);
    assert.is(`${written.body.error.code} ${signed.body.error.code}`, `${code} ${code}`);
    const told = [written.headers.get('access-control-allow-credentials'), signed.headers.get('set-cookie')];
    assert.equal(told, [null, null]);
  }
  await must(200, by(cookie, 'get', secure + SESSION, undefined, own));
  assert.is((await by(cookie, 'get', workspaces, undefined, { ...own, Authorization: 'Bearer' })).status, 401);
});

test('a session verifies nothing, makes no other session, and only a session ends one; over TLS one of another name is none', async () => {
  const cookie = await session();
  const bare = (await session(world.team.token, secure)).replace('__Host-', '');
  await refused(40101, by(bare, 'get', secure + SESSION), 'another host may set another name');
  await refused(40101, by(cookie, 'post', '/api/v1/api-key/verify', { key: 'k' }));
  await refused(40101, by(cookie, 'post', SESSION));
  await refused(40103, ask('delete', SESSION, undefined, marked));
});

test("answers kept for an Idempotency-Key open with the session's secret alone", async () => {
  const { token } = await world.newTeam();
  const [first, second] = [await session(token), await session(token)];
  const once = { 'Idempotency-Key': 'once' };
  const made = async (cookie: string): Promise<string> => {
    const made = by(cookie, 'post', '/api/v1/workspace', { name: 'n' }, { ...marked, ...once });
    return (await must(201, made)).body.workspace.id;
  };
  const id = await made(first);
  assert.is(await made(first), id);
  const byToken = await callsOf(world, token).make('/api/v1/workspace', { name: 'n' }, once);
  assert.is(new Set([id, await made(second), byToken.id]).size, 3, 'nobody else gets the answer');
});

test('failed tries to sign in, and guessed cookies, are limited like other failures; a valid token passes', async () => {
  // From an address of its own: failures of other tests count for that of this machine.
  const headers = { ...marked, 'X-Forwarded-For': '198.51.100.77' };
  const limited = { FAILED_AUTH_PER_MINUTE: '100', TRUSTED_PROXIES: '127.0.0.1' };
  const { url } = await world.start('api', limited);
  const unknown = `${world.team.token.slice(0, -1)}${world.team.token.endsWith('0') ? '1' : '0'}`;
  const guess = (i: number) => `keytally=${'A'.repeat(41)}${10 + i}`;
  const sixty = <T>(ask: (i: number) => Promise<T>) => Promise.all(Array.from({ length: 60 }, (_, i) => ask(i)));
  const answers = await sixty(() => signIn(unknown, headers, url));
  answers.push(...(await sixty((i) => by(guess(i), 'get', url + SESSION, undefined, headers))));
  const counts: Record<number, number> = {};
  for (const { body } of answers) counts[body.error.code] = (counts[body.error.code] ?? 0) + 1;
  assert.equal(counts, { 40102: 60, 40103: 40, 42901: 20 });
  await must(201, signIn(world.team.token, headers, url));
});

test('a token has at most 20 sessions: one more ends the oldest', async () => {
  const { token } = await world.newTeam();
  const cookies: string[] = [];
  for (let i = 0; i < 21; i++) cookies.push(await session(token));
  await refused(40103, by(cookies[0]!, 'get', SESSION));
  for (const cookie of cookies.slice(1)) await must(200, by(cookie, 'get', SESSION));
});

test('a code signs in once, within 10 minutes, and the next one of its token ends it; it is no session itself, and none makes one', async () => {
  const { token } = await world.newTeam();
  const newCode = async () =>
    (await must(201, world.call('post', `${SESSION}/link`, undefined, { token }))).body.code as string;
  const enter = (code: string) =>
    world.call('post', `${SESSION}/code`, undefined, { token: null, headers: { ...marked, 'X-Keytally-Code': code } });
  const [replaced, code] = [await newCode(), await newCode()];
  await refused(40103, by(`keytally=${code}`, 'get', SESSION));
  await refused(40103, enter(replaced));
  const both = await Promise.all([enter(code), enter(code)]);
  const entered = both.filter(({ status }) => status === 201);
  assert.is(entered.length, 1);
  const cookie = cookieOf(entered[0]!);
  assert.is((await must(200, by(cookie, 'get', SESSION))).body.session.tokenName, 'test');
  await refused(40101, by(cookie, 'post', `${SESSION}/link`));
  await refused(40103, enter(code));
  const late = await newCode();
  const id = (await must(200, by(cookie, 'get', SESSION))).body.session.tokenId as string;
  await world.sql`update sessions set expires_at = now() where once and token_id = ${id}`;
  await refused(40103, enter(late));
});
