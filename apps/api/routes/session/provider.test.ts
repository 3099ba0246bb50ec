import { createServer, type Server } from 'node:http';
import Oidc from 'oidc-provider';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { listen } from '../../../../tests/helpers/listen.ts';
import { joinWorld, must, refused } from '../../tests/helpers/calls.ts';
import { callsByCookie, cookieOf, marked } from '../../tests/helpers/cookies.ts';

// People sign in at a real provider, as their browser does it.

const SESSION = '/console/session';
const CLIENT_SECRET = 'the secret of the client';
const HOME = 'https://keytally.example/console';
/** The people that the provider knows, with their groups. */
const people: Record<string, string[]> = { ada: ['admins'], sam: ['support', 'football'], bob: ['football'] };

const world = await joinWorld();
const by = callsByCookie(world);
const server = createServer();
const { url: issuer } = await listen(server);
serveProvider(server);
const settings = {
  OIDC_ISSUER: issuer,
  OIDC_CLIENT_ID: 'keytally',
  OIDC_CLIENT_SECRET: CLIENT_SECRET,
  OIDC_GROUPS: 'admins=*, support=workspace:read key:read',
  OIDC_TEAM: world.team.id,
  PUBLIC_API_URL: 'https://keytally.example',
};
const api = (await world.start('api', settings)).url;

const ask = (url = api) => world.call('post', `${url}${SESSION}/provider`, undefined, { token: null, headers: marked });
const enter = (cookie: string, query: string) =>
  by(cookie, 'post', `${api}${SESSION}/provided`, undefined, { ...marked, 'X-Keytally-Code': query });
/** What the provider answers a person, and the cookie of the browser that asked. */
async function answered(name: string) {
  const asked = await must(200, ask());
  return { cookie: cookieOf(asked), query: await signInAtProvider(asked.body.url, name) };
}
const signIn = async (name: string) => {
  const { cookie, query } = await answered(name);
  return enter(cookie, query);
};
const get = (cookie: string, path = SESSION) => by(cookie, 'get', api + path);

test('who is in a group signs in for an hour, with the rights of their groups and one token of their own', async () => {
  const answer = await must(201, signIn('ada'));
  assert.equal([answer.body.session.permissions, answer.body.session.tokenName], [permissions, 'Person ada']);
  const lasts = Date.parse(answer.body.session.expiresAt) - Date.now();
  assert.ok(lasts > 3_500_000 && lasts <= 3_600_000, `${lasts}`);
  assert.match(answer.headers.get('set-cookie')!, /^keytally=[\w-]{43}; Max-Age=3600; Path=\/; HttpOnly/);
  assert.is((await get(cookieOf(answer), '/api/v1/workspace')).status, 200);
  const again = await must(201, signIn('ada'));
  assert.is(again.body.session.tokenId, answer.body.session.tokenId);
  const { session } = (await must(201, signIn('sam'))).body;
  assert.equal(session.permissions, ['workspace:read', 'key:read']);
  await world.sql`update sessions set expires_at = now() where token_id = ${session.tokenId}`;
});

test('who is in no group is refused, and so is who was taken out of it, or away, at the next sign-in; rights follow at once', async () => {
  await refused(40301, signIn('bob'));
  people['eve'] = ['admins'];
  const first = await must(201, signIn('eve'));
  people['eve'] = ['support'];
  const second = await must(201, signIn('eve'));
  assert.equal((await get(cookieOf(second))).body.session.permissions, ['workspace:read', 'key:read']);
  await refused(40301, by(cookieOf(second), 'post', `${api}/api/v1/workspace`, { name: 'n' }));
  const [{ permissions: stored }] = await world.sql<[{ permissions: string[] }]>`
    select permissions from access_tokens where id = ${first.body.session.tokenId}`;
  assert.equal(stored, ['workspace:read', 'key:read'], 'of the session before, too');
  people['eve'] = [];
  await refused(40301, signIn('eve'));
  people['eve'] = ['admins'];
  const { cookie, query } = await answered('eve');
  delete people['eve'];
  await refused(40103, enter(cookie, query), 'the provider knows them no more');
});

test('a session of the provider ends after its hour, and with its token', async () => {
  const answer = await must(201, signIn('ada'));
  const { tokenId } = answer.body.session;
  await world.sql`update sessions set expires_at = now() where token_id = ${tokenId}`;
  await refused(40103, get(cookieOf(answer)));
  const later = await must(201, signIn('ada'));
  await must(200, world.call('delete', `/api/v1/access-token/${tokenId}`));
  await refused(40103, get(cookieOf(later)));
  const fresh = (await must(201, signIn('ada'))).body.session;
  assert.is.not(fresh.tokenId, tokenId, 'a revoked token stays revoked');
});

test('an answer counts once, of the issuer that was asked, for the browser that asked, and only as it was signed', async () => {
  const { cookie, query } = await answered('ada');
  const other = cookieOf(await must(200, ask()));
  const told = new URLSearchParams(query);
  const changed = (name: string, value: string) =>
    `?${new URLSearchParams({ ...Object.fromEntries(told), [name]: value }).toString()}`;
  for (const [how, by, given] of [
    ['another issuer', cookie, changed('iss', 'https://evil.example')],
    ['another state', cookie, changed('state', 'x')],
    ['another browser', other, query],
    ['no code', cookie, changed('code', '')],
    ['a refusal', cookie, `?error=access_denied&state=${told.get('state')}&iss=${issuer}`],
  ] as const)
    await refused(40103, enter(by, given), how);
  await refused(40103, enter('keytally=x', query), 'no cookie of the question');
  await must(201, enter(cookie, query));
  await refused(40103, enter(cookie, query), 'replayed');
  const elsewhere = { ...marked, 'Sec-Fetch-Site': 'cross-site' };
  await refused(40308, by(cookie, 'post', `${api}${SESSION}/provided`, undefined, elsewhere));
});

test('a provider that is another than it was called, or does not answer, is unavailable; without one there is none', async () => {
  const elsewhere = await world.start('api', { ...settings, OIDC_ISSUER: issuer.replace('127.0.0.1', 'localhost') });
  await refused(50313, ask(elsewhere.url), 'its document names another issuer');
  await refused(40401, ask(world.api.url));
  await refused(40401, by('keytally-provider=x', 'post', `${SESSION}/provided`));
});

/** Signs in at the provider's own pages; gives the query with which it sends the browser back. */
async function signInAtProvider(start: string, name: string): Promise<string> {
  const jar = new Map<string, string>();
  let [url, form] = [start, undefined as URLSearchParams | undefined];
  for (let step = 0; step < 12; step++) {
    const Cookie = [...jar].map(([key, value]) => `${key}=${value}`).join('; ');
    const sent = form && { method: 'POST', body: form };
    const answer = await fetch(url, { redirect: 'manual', headers: { Cookie }, ...sent });
    for (const cookie of answer.headers.getSetCookie()) {
      const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      jar.set(key, value);
    }
    const page = await answer.text();
    const next = answer.headers.get('location');
    if (next?.startsWith(HOME)) return new URL(next).search;
    const [, prompt] = /name="prompt" value="(\w+)"/.exec(page) ?? [];
    form = next ? undefined : new URLSearchParams({ prompt: prompt ?? '', login: name, password: 'p' });
    url = next ? new URL(next, issuer).href : url;
  }
  throw new Error('the provider does not come to an end');
}

function serveProvider(on: Server): void {
  const provider = new Oidc(issuer, {
    clients: [{ client_id: 'keytally', client_secret: CLIENT_SECRET, redirect_uris: [HOME] }],
    claims: { openid: ['sub', 'groups', 'name'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['a key for cookies'] },
    findAccount: (_, accountId) =>
      people[accountId] && {
        accountId,
        claims: async () => ({ sub: accountId, groups: people[accountId], name: `Person ${accountId}` }),
      },
  });
  on.on('request', provider.callback());
}
