import { createLocalJWKSet, createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../../shared/runtime/clock.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { eventually, makeWorld, type Answer, type World } from '../../../../tests/helpers/world.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeKeySets, MAX_SHARED_KEYS } from '../../resources/jwts/key-sets.ts';

const SHARED = '/.well-known/jwks.json';
const SETTINGS = '/api/v1/jwt/settings';
type Team = { id: string; token: string };
let world: World;
const test = suite('key sets');
test.before(async () => {
  world = await makeWorld([], { PUBLIC_API_URL: 'https://keys.example.com' });
});
test.after(() => world?.stop());

test("a service that trusts a team's address accepts no JWT of another team", async () => {
  const [ours, theirs] = [await world.newTeam(), await world.newTeam()];
  const admin = await sign(theirs, { role: 'admin' });
  await sign(ours, {});
  const own = await keySet(addressOf(ours));
  assert.ok((await jwtVerify(await sign(ours, {}), createLocalJWKSet(own.body))).payload.iss === ours.id);
  const refusal = await jwtVerify(admin, createLocalJWKSet(own.body)).catch((error: Error) => error.message);
  assert.is(refusal, 'no applicable key found in the JSON Web Key Set');
  assert.is((await keySet(`${SHARED}?team=${ours.id}`)).text, own.text, 'the older address of a team answers the same');
  for (const none of [newId('team'), 'x', '%00', '%E0%A4%A'])
    assert.equal((await keySet(`/team/${none}/.well-known/jwks.json`)).body, { keys: [] }, none);
});

test('caches may keep a key set for minutes, and ask with its ETag whether it has changed', async () => {
  const team = await world.newTeam();
  const empty = await keySet(addressOf(team));
  assert.is(empty.headers.get('cache-control'), 'no-store', 'a set that the first JWT fills');
  await sign(team, {});
  for (const path of [addressOf(team), `${SHARED}?team=${team.id}`, SHARED]) {
    const first = await keySet(path);
    const etag = first.headers.get('etag')!;
    assert.match(first.headers.get('cache-control')!, /^public, max-age=300, stale-while-revalidate=300$/, path);
    assert.match(etag, /^"[\w-]{20,}"$/);
    for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const again = await keySet(path, { 'If-None-Match': known });
      assert.equal([again.status, again.text, again.headers.get('etag')], [304, '', etag], known);
      assert.is(again.headers.get('cache-control'), first.headers.get('cache-control'));
    }
    assert.is((await keySet(path, { 'If-None-Match': '"other"' })).status, 200);
  }
  const before = (await keySet(addressOf(team))).headers.get('etag')!;
  await must(200, world.call('post', '/api/v1/jwt/rotate', undefined, { token: team.token }));
  assert.is((await keySet(addressOf(team), { 'If-None-Match': before })).status, 200);
});

test('a key is published before it signs: a key set from before a rotation verifies JWTs signed after it', async () => {
  const team = await world.newTeam();
  await sign(team, {});
  for (let rotation = 0; rotation < 3; rotation++) {
    const cached = createLocalJWKSet((await keySet(addressOf(team))).body);
    const { kid } = (await must(200, world.call('post', '/api/v1/jwt/rotate', undefined, { token: team.token }))).body;
    const jwt = await sign(team, {});
    assert.is(decodeProtectedHeader(jwt).kid, kid);
    assert.is((await jwtVerify(jwt, cached, { issuer: team.id })).payload.iss, team.id);
  }
});

test('a team that was made by an earlier version publishes its next key with its next JWT', async () => {
  const team = await world.newTeam();
  await sign(team, {});
  await world.sql`delete from signing_keys where team_id = ${team.id} and retired_at is not null`;
  assert.is((await keySet(addressOf(team))).body.keys.length, 1);
  await sign(team, {});
  assert.is((await keySet(addressOf(team))).body.keys.length, 2);
});

test('the shared key set is without the teams that opted out, and has them again when they return', async () => {
  const [stays, leaves] = [await world.newTeam(), await world.newTeam()];
  await sign(leaves, {});
  const change = async (sharedKeySet: boolean) => {
    const { body } = await must(200, world.call('patch', SETTINGS, { sharedKeySet }, { token: leaves.token }));
    assert.is(body.jwtSettings.sharedKeySet, sharedKeySet);
  };
  const inShared = async (team: Team) => {
    const kids = (path: string) => keySet(path).then(({ body }) => body.keys.map((key: { kid: string }) => key.kid));
    const [all, own] = [await kids(SHARED), await kids(addressOf(team))];
    assert.ok(own.length > 0);
    return own.filter((kid: string) => all.includes(kid)).length / own.length;
  };
  await sign(stays, {});
  await eventually('both are there', async () => (await inShared(leaves)) === 1 && (await inShared(stays)) === 1);
  await change(false);
  await eventually('one has left', async () => (await inShared(leaves)) === 0);
  await must(200, world.call('post', '/api/v1/jwt/rotate', undefined, { token: leaves.token }));
  await sign(leaves, {});
  await eventually('the other is there', async () => (await inShared(stays)) === 1);
  assert.is(await inShared(leaves), 0, 'its later keys are not shared either');
  await change(true);
  await eventually('it is back', async () => (await inShared(leaves)) === 1);
});

test('the shared key set is bounded: keys that sign come first, those of the oldest teams among them', async () => {
  const { sql } = world;
  await sql`insert into teams (id, name) select 'team_0' || lpad(i::text, 25, '0'), 'many ' || i from generate_series(1, 4000) i`;
  await sql`
    insert into signing_keys (kid, team_id, public_jwk, retired_at, longest_seconds)
    select lpad(i::text, 43, 'x') || '', 'team_0' || lpad(i::text, 25, '0'),
           json_build_object('kty', 'OKP', 'crv', 'Ed25519', 'x', lpad(i::text, 43, 'x'), 'kid', lpad(i::text, 43, 'x'), 'alg', 'EdDSA', 'use', 'sig'),
           case when i % 2 = 0 then now() end, 3600
    from generate_series(1, 4000) i`;
  const { body, text } = await eventually('the set is cut', async () => {
    const answer = await keySet(SHARED);
    return answer.body.keys.length === MAX_SHARED_KEYS ? answer : undefined;
  });
  assert.ok(text.length < 350_000, String(text.length));
  const numbers = body.keys.flatMap(({ kid }: { kid: string }) => /^x+(\d+)$/.exec(kid)?.[1] ?? []).map(Number);
  assert.ok(
    numbers.every((number: number) => number % 2 === 1),
    'none that signs no more',
  );
  assert.equal(
    numbers,
    numbers.toSorted((a: number, b: number) => a - b),
  );
  await sql`delete from signing_keys where kid like 'xx%'`;
  await sql`delete from teams where name like 'many %'`;
});

test('strangers who ask for key sets cost Postgres one read a second for the shared set, and one at a time for teams', async () => {
  const teams = [await world.newTeam(), await world.newTeam()];
  for (const team of teams) await sign(team, {});
  let [reads, running, most] = [0, 0, 0];
  const counting = (first: TemplateStringsArray, ...rest: []) => {
    const made = world.sql(first, ...rest);
    if (!Array.isArray(first.raw)) return made;
    reads++;
    most = Math.max(most, ++running);
    return made.finally(() => running--);
  };
  const keySets = makeKeySets(Object.assign(counting, world.sql), makeLogger('test', 'silent'), systemClock);
  const started = Date.now();
  for (let i = 0; i < 50; i++) await Promise.all(Array.from({ length: 20 }, () => keySets.shared()));
  assert.ok(reads <= 1 + (Date.now() - started) / 1000, `${reads} reads of the shared set`);
  reads = 0;
  const asked = Array.from({ length: 2_000 }, (_, i) => keySets.ofTeam(i < 1_000 ? teams[i % 2]!.id : newId('team')));
  const answers = await Promise.all(asked);
  assert.is(answers[0]!.keys.length, 2);
  assert.is(answers.at(-1)!.keys.length, 0);
  assert.is(most, 1);
  assert.ok(reads <= 6, `${reads} reads for 2,000 requests of 1,002 teams`);
});

test('with the issuer URL, a library finds the key set of a team from its issuer alone', async () => {
  const team = await world.newTeam();
  const { token } = team;
  const { url } = await world.start('api', { PUBLIC_API_URL: '/' });
  const unset = await world.call('patch', `${url}${SETTINGS}`, { issuer: 'URL' }, { token });
  assert.is(unset.body.error.code, 40923, 'the operator has not said the URL');
  const settings = (await must(200, world.call('get', SETTINGS, undefined, { token }))).body.jwtSettings;
  assert.is(settings.issuer, 'TEAM_ID');
  assert.is(settings.iss, team.id);
  const discovery = `/team/${team.id}/.well-known/openid-configuration`;
  const none = await world.call('get', discovery, undefined, { token: null });
  assert.is(none.body.error.code, 40420, 'its JWTs would not name this issuer');
  assert.is((await world.call('get', discovery.replace(team.id, 'x'))).body.error.code, 40420);
  const old = await sign(team, {});
  const changed = (await must(200, world.call('patch', SETTINGS, { issuer: 'URL' }, { token }))).body.jwtSettings;
  assert.match(changed.iss, new RegExp(`^https?://.*/team/${team.id}$`));
  const jwt = await sign(team, {});
  assert.is(decodeJwt(jwt).iss, changed.iss);
  for (const one of [old, jwt])
    assert.is((await world.call('post', '/api/v1/jwt/verify', { jwt: one }, { token })).body.status, 'VALID');

  const found = await must(200, world.call('get', discovery, undefined, { token: null }));
  assert.is(found.body.issuer, changed.iss);
  assert.is(found.body.jwks_uri, `${changed.iss}/.well-known/jwks.json`);
  assert.equal(found.body.jwks_uri, changed.jwksUri);
  assert.equal(found.body.id_token_signing_alg_values_supported, ['EdDSA']);
  const published = new URL(`${world.api.url}${new URL(found.body.jwks_uri as string).pathname}`);
  assert.ok((await jwtVerify(jwt, createRemoteJWKSet(published), { issuer: found.body.issuer as string })).payload);
});

test('settings need the whole team and token:write, and a change stands in the audit log', async () => {
  const limited = await world.newToken(
    world.team.id,
    ['token:write', 'jwt:verify'],
    [await world.newWorkspace(world.team.id)],
  );
  assert.is((await world.call('patch', SETTINGS, { sharedKeySet: false }, { token: limited })).body.error.code, 40302);
  assert.is((await world.call('get', SETTINGS, undefined, { token: limited })).status, 200);
  const signer = await world.newToken(world.team.id, ['jwt:sign']);
  assert.is((await world.call('patch', SETTINGS, { sharedKeySet: false }, { token: signer })).body.error.code, 40301);
  for (const body of [{ issuer: 'https://evil.example' }, { sharedKeySet: null }, { shared: true }])
    assert.is((await world.call('patch', SETTINGS, body)).body.error.code, 40001);
  await must(200, world.call('patch', SETTINGS, { sharedKeySet: false }));
  await must(200, world.call('patch', SETTINGS, {}));
  const { auditLog } = (await world.call('get', `/api/v1/audit-log?resource=jwt_settings`)).body;
  assert.is(auditLog.length, 1);
  assert.equal([auditLog[0].before.sharedKeySet, auditLog[0].after.sharedKeySet], [true, false]);
});

test('a team publishes a bounded number of keys; beyond it only a rotation that retires the earlier ones passes', async () => {
  const team = await world.newTeam();
  const rotate = (body?: object) => world.call('post', '/api/v1/jwt/rotate', body, { token: team.token });
  await sign(team, {});
  await world.sql`
    insert into signing_keys (kid, team_id, public_jwk, retired_at, longest_seconds)
    select 'k' || i, ${team.id}, '{"kty":"OKP","crv":"Ed25519","x":"x","kid":"k","alg":"EdDSA","use":"sig"}', now(), 3600
    from generate_series(1, 98) i`;
  assert.is((await keySet(addressOf(team))).body.keys.length, 100);
  const refused = await rotate();
  assert.is(refused.body.error?.code, 40921, refused.text);
  assert.is((await rotate({ retireNow: true })).status, 200);
  assert.is((await keySet(addressOf(team))).body.keys.length, 2);
  assert.is((await rotate()).status, 200);
});

test.run();

function addressOf({ id }: Team): string {
  return `/team/${id}/.well-known/jwks.json`;
}

function keySet(path: string, headers: Record<string, string> = {}): Promise<Answer> {
  return world.call('get', path, undefined, { token: null, headers });
}

async function sign({ token }: Team, payload: object): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/jwt', { payload }, { token }))).body.jwt;
}
