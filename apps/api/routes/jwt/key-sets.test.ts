import { rejects } from 'node:assert/strict';
import { createLocalJWKSet, createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../../shared/runtime/clock.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import type { Sql } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { makeKeySets, MAX_SHARED_KEYS } from '../../resources/jwts/key-sets.ts';
import { claimsOf, keySetOf, makeJwts, PATH } from './helpers/jwts.ts';
import { callsOf, joinWorld, must, refused } from '../../tests/helpers/calls.ts';
import { undone } from '../../tests/helpers/undone.ts';

const SHARED = '/.well-known/jwks.json';
const SETTINGS = `${PATH}/settings`;
const world = await joinWorld();
const jwts = makeJwts(world);

test("a service that trusts a team's address accepts no JWT of another team", async () => {
  const [ours, theirs] = [await world.newTeam(), await world.newTeam()];
  const admin = await jwts.sign(theirs, { payload: { role: 'admin' } });
  const jwt = await jwts.sign(ours);
  const own = await keySet(keySetOf(ours));
  assert.is((await jwtVerify(jwt, createLocalJWKSet(own.body))).payload.iss, ours.id);
  await rejects(jwtVerify(admin, createLocalJWKSet(own.body)), /no applicable key found in the JSON Web Key Set/);
  assert.is((await keySet(`${SHARED}?team=${ours.id}`)).text, own.text, 'the older address of a team answers the same');
  for (const id of [newId('team'), 'x', '%00', '%E0%A4%A'])
    assert.equal((await keySet(keySetOf({ id }))).body, { keys: [] }, id);
});

test('caches may keep a key set for minutes, and ask with its ETag whether it has changed', async () => {
  const team = await world.newTeam();
  const empty = await keySet(keySetOf(team));
  assert.is(empty.headers.get('cache-control'), 'no-store', 'a set that the first JWT fills');
  await jwts.sign(team);
  for (const path of [keySetOf(team), `${SHARED}?team=${team.id}`]) {
    const first = await keySet(path);
    const etag = first.headers.get('etag')!;
    assert.is(first.headers.get('cache-control'), 'public, max-age=300, stale-while-revalidate=300', path);
    assert.match(etag, /^"[\w-]{20,}"$/);
    for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const again = await keySet(path, { 'If-None-Match': known });
      assert.equal([again.status, again.text, again.headers.get('etag')], [304, '', etag], known);
      assert.is(again.headers.get('cache-control'), first.headers.get('cache-control'));
    }
    await jwts.rotate(team);
    assert.is((await keySet(path, { 'If-None-Match': etag })).status, 200);
  }
});

test('a key is published before it signs: a key set from before a rotation verifies JWTs of before and after it', async () => {
  const team = await world.newTeam();
  // A team gets one key, also when its first JWTs are requested at once.
  const first = await Promise.all(Array.from({ length: 8 }, (_, i) => jwts.sign(team, { payload: { i } })));
  const signers = [...new Set(first.map((jwt) => decodeProtectedHeader(jwt).kid))];
  assert.is(signers.length, 1);
  for (let rotation = 0; rotation < 3; rotation++) {
    const cached = createLocalJWKSet((await keySet(keySetOf(team))).body);
    const kid = await jwts.rotate(team);
    const jwt = await jwts.sign(team);
    signers.unshift(kid);
    assert.is(decodeProtectedHeader(jwt).kid, kid);
    assert.is((await jwtVerify(jwt, cached, { issuer: team.id })).payload.iss, team.id);
  }
  const [current, _next, ...earlier] = await jwts.kids(team);
  assert.equal([current, ...earlier], signers);
  for (const jwt of first) assert.is((await jwts.verify(team, jwt)).status, 'VALID');
});

test('a retired key leaves the key set once none of its JWTs can be in force, and still tells EXPIRED from INVALID', async () => {
  const team = await world.newTeam();
  await jwts.sign(team, { exp: 7_200 });
  await jwts.sign(team, { exp: 60 });
  const expired = await jwts.signBy(team, claimsOf(team, -60));
  const retired = decodeProtectedHeader(expired).kid!;
  await jwts.rotate(team);
  const retire = (secondsAgo: number) => world.sql`
    update signing_keys set retired_at = now() - make_interval(secs => ${secondsAgo}) where kid = ${retired}`;
  await retire(7_200);
  assert.is((await jwts.kids(team))[2], retired, 'its JWT with the longest lifetime may be in force');
  await retire(7_200 + 301);
  assert.is((await jwts.kids(team)).length, 2);
  assert.is((await jwts.verify(team, expired)).status, 'EXPIRED');
  const [row] = await world.sql`select private_encrypted from signing_keys where kid = ${retired}`;
  assert.is(row!.privateEncrypted, null, 'the private key of a retired key is gone, so nobody can steal it');
});

test('the shared key set is without retired keys and the teams that opted out, and has these again when they return', async () => {
  const [stays, leaves] = [await world.newTeam(), await world.newTeam()];
  for (const team of [stays, leaves]) await jwts.sign(team);
  const shared = async () => {
    const kids = await sharedKids(world.sql);
    const has = async (team: { id: string; token: string }) => {
      const own = await jwts.kids(team);
      return own.filter((kid) => kids.includes(kid)).length / own.length;
    };
    return [await has(stays), await has(leaves)];
  };
  const share = async (sharedKeySet: boolean) => {
    const { body } = await must(200, world.call('patch', SETTINGS, { sharedKeySet }, leaves));
    assert.is(body.jwtSettings.sharedKeySet, sharedKeySet);
  };
  assert.equal(await shared(), [1, 1]);
  await share(false);
  assert.equal(await shared(), [1, 0]);
  await jwts.rotate(leaves);
  assert.equal(await shared(), [1, 0], 'its later keys are not shared either');
  await share(true);
  assert.equal(await shared(), [1, 1]);
  const before = await jwts.kids(stays);
  await jwts.rotate(stays, { retireNow: true });
  const kids = await sharedKids(world.sql);
  assert.not.ok(before.some((kid) => kids.includes(kid)));
  const { keys } = (await keySet(SHARED)).body;
  for (const key of keys) assert.equal(Object.keys(key).toSorted(), ['alg', 'crv', 'kid', 'kty', 'use', 'x']);
});

test('the shared key set is bounded: keys that sign come first, those of the oldest teams among them', async () => {
  const kids = await undone(world.sql, async (tx) => {
    await tx`insert into teams (id, name) select 'team_0' || lpad(i::text, 25, '0'), 'many ' || i from generate_series(1, 5000) i`;
    await tx`
      insert into signing_keys (kid, team_id, public_jwk, retired_at, longest_seconds)
      select lpad(i::text, 43, 'x'), 'team_0' || lpad(i::text, 25, '0'), json_build_object('kid', lpad(i::text, 43, 'x')),
             case when i % 2 = 0 then now() end, 3600
      from generate_series(1, 5000) i`;
    return sharedKids(tx as unknown as Sql);
  });
  const signing = Array.from({ length: MAX_SHARED_KEYS }, (_, i) => String(2 * i + 1).padStart(43, 'x'));
  assert.equal(kids, signing, 'none that signs no more');
});

test('strangers who ask for key sets cost Postgres one read a second for the shared set, and one at a time for teams', async () => {
  const team = await world.newTeam();
  await jwts.sign(team);
  let [reads, running, most] = [0, 0, 0];
  const counting = (first: TemplateStringsArray, ...rest: []) => {
    const made = world.sql(first, ...rest);
    if (!Array.isArray(first.raw)) return made;
    reads++;
    most = Math.max(most, ++running);
    return made.finally(() => running--);
  };
  let at = 0;
  const clock = { ...systemClock, monotonic: () => at };
  const keySets = makeKeySets(Object.assign(counting, world.sql), makeLogger('test', 'silent'), clock);
  for (const [ms, read] of Object.entries({ 0: 1, 999: 1, 1_000: 2 })) {
    at = Number(ms);
    for (let i = 0; i < 3; i++) await Promise.all(Array.from({ length: 20 }, () => keySets.shared()));
    assert.is(reads, read, ms);
  }
  reads = 0;
  const asked = Array.from({ length: 2_000 }, (_, i) => keySets.ofTeam(i < 1_000 ? team.id : newId('team')));
  const answers = await Promise.all(asked);
  assert.equal([answers[0]!.keys.length, answers.at(-1)!.keys.length, most], [2, 0, 1]);
  assert.ok(reads <= 6, `${reads} reads for 2,000 requests of 1,001 teams`);
});

test('with the issuer URL, a library finds the key set of a team from its issuer alone', async () => {
  const team = await world.newTeam();
  const { token } = team;
  const { url } = await world.start('api', { PUBLIC_API_URL: 'https://keys.example.com' });
  const unset = await world.call('patch', SETTINGS, { issuer: 'URL' }, { token });
  assert.is(unset.body.error.code, 40923, 'the operator has not said the URL');
  const settings = await callsOf(world, token).read(SETTINGS);
  assert.equal([settings.issuer, settings.iss], ['TEAM_ID', team.id]);
  const discovery = `${url}/team/${team.id}/.well-known/openid-configuration`;
  for (const at of [discovery, discovery.replace(team.id, 'x')])
    await refused(40420, keySet(at), 'its JWTs would not name this issuer');
  const old = await jwts.sign(team);
  const patched = await must(200, world.call('patch', url + SETTINGS, { issuer: 'URL' }, { token }));
  const { iss, jwksUri } = patched.body.jwtSettings;
  assert.is(iss, `https://keys.example.com/team/${team.id}`);
  const jwt = await callsOf(world, token).make(url + PATH, { payload: {} });
  assert.is(decodeJwt(jwt).iss, iss);
  for (const one of [old, jwt]) assert.is((await jwts.verify(team, one)).status, 'VALID');

  const found = (await keySet(discovery)).body;
  assert.equal([found.issuer, found.jwks_uri, jwksUri], [iss, `${iss}/.well-known/jwks.json`, found.jwks_uri]);
  assert.equal(found.id_token_signing_alg_values_supported, ['EdDSA']);
  const published = new URL(url + new URL(found.jwks_uri as string).pathname);
  assert.ok((await jwtVerify(jwt, createRemoteJWKSet(published), { issuer: found.issuer as string })).payload);
});

test('a team publishes a bounded number of keys; beyond it only a rotation that retires the earlier ones passes', async () => {
  const team = await world.newTeam();
  await jwts.sign(team);
  await world.sql`
    insert into signing_keys (kid, team_id, public_jwk, retired_at, longest_seconds)
    select 'k' || i, ${team.id}, '{"kty":"OKP","crv":"Ed25519","x":"x","kid":"k","alg":"EdDSA","use":"sig"}', now(), 3600
    from generate_series(1, 98) i`;
  assert.is((await jwts.kids(team)).length, 100);
  await refused(40921, jwts.ask(team, '/rotate'));
  await jwts.rotate(team, { retireNow: true });
  assert.is((await jwts.kids(team)).length, 2);
  await jwts.rotate(team);
});

function keySet(path: string, headers: Record<string, string> = {}) {
  return world.call('get', path, undefined, { token: null, headers });
}

/** The ids of the keys in the set of all teams, as it is now: an api keeps it for a second. */
async function sharedKids(sql: Sql): Promise<string[]> {
  const { text } = await makeKeySets(sql, makeLogger('test', 'silent'), systemClock).shared();
  return JSON.parse(String(text)).keys.map((key: { kid: string }) => key.kid);
}
