import { setTimeout as sleep } from 'node:timers/promises';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/jwt';
let world: World;
const test = suite('signing keys');
test.before(async () => {
  world = await makeWorld();
});
test.after(() => world?.stop());

test('after a rotation new JWTs carry the new key and old ones keep verifying', async () => {
  const before = (await world.call('post', PATH, { payload: { a: 1 } })).body.jwt;
  const rotated = await world.call('post', `${PATH}/rotate`);
  assert.is(rotated.status, 200, rotated.text);
  assert.equal(Object.keys(rotated.body), ['kid']);
  const after = (await world.call('post', PATH, { payload: { a: 2 } })).body.jwt;
  assert.is(decodeProtectedHeader(after).kid, rotated.body.kid);
  assert.is.not(decodeProtectedHeader(before).kid, rotated.body.kid);
  for (const jwt of [before, after]) assert.is((await verify(jwt)).body.status, 'VALID');
  const { keys } = (await world.call('get', `/.well-known/jwks.json?team=${world.team.id}`)).body;
  assert.equal(
    keys.map((key: { kid: string }) => key.kid),
    [rotated.body.kid, keys[1].kid, decodeProtectedHeader(before).kid],
  );
});

test('a retired key leaves the key set once none of its JWTs can be in force, and still tells EXPIRED from INVALID', async () => {
  const { id, token } = await world.newTeam();
  const sign = async (exp: number) => (await world.call('post', PATH, { payload: {}, exp }, { token })).body.jwt;
  const kids = async () => {
    const { keys } = (await world.call('get', `/.well-known/jwks.json?team=${id}`)).body;
    return keys.map((key: { kid: string }) => key.kid);
  };
  const short = await sign(1);
  await sign(7_200);
  await sign(60);
  const { kid: retired } = decodeProtectedHeader(short);
  const { kid: current } = (await world.call('post', `${PATH}/rotate`, undefined, { token })).body;
  const retire = (secondsAgo: number) => world.sql`
    update signing_keys set retired_at = now() - make_interval(secs => ${secondsAgo}) where kid = ${retired!}`;
  const next = (await kids())[1];
  await retire(7_200);
  assert.equal(await kids(), [current, next, retired], 'its JWT with the longest lifetime may be in force');
  await retire(7_200 + 301);
  assert.equal(await kids(), [current, next]);
  await sleep(decodeJwt(short).exp! * 1000 - Date.now() + 20);
  assert.is((await world.call('post', `${PATH}/verify`, { jwt: short }, { token })).body.status, 'EXPIRED');
  const [row] = await world.sql`select private_encrypted from signing_keys where kid = ${retired!}`;
  assert.is(row!.privateEncrypted, null, 'the private key of a retired key is gone, so nobody can steal it');
});

test('a team gets one key, also when its first JWTs are requested at once', async () => {
  const { id, token } = await world.newTeam();
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, i) => world.call('post', PATH, { payload: { i } }, { token })),
  );
  assert.is(new Set(answers.map((answer) => decodeProtectedHeader(answer.body.jwt).kid)).size, 1);
  const { keys } = (await world.call('get', `/.well-known/jwks.json?team=${id}`)).body;
  assert.is(keys.length, 2, 'the one that signs, and the next one');
});

test("the key set of all teams contains each team's keys, and that of an unknown team is empty", async () => {
  const { id, token } = await world.newTeam();
  assert.equal((await world.call('get', `/.well-known/jwks.json?team=${id}`)).body, { keys: [] });
  await world.call('post', PATH, { payload: {} }, { token });
  const theirs = (await world.call('get', `/.well-known/jwks.json?team=${id}`)).body.keys;
  assert.is(theirs.length, 2);
  const all = await eventually('it is in the key set of all teams', async () => {
    const { keys } = (await world.call('get', '/.well-known/jwks.json', undefined, { token: null })).body;
    return keys.some((key: { kid: string }) => key.kid === theirs[0].kid) ? keys : undefined;
  });
  for (const key of all) assert.equal(Object.keys(key).toSorted(), ['alg', 'crv', 'kid', 'kty', 'use', 'x']);
  assert.equal((await world.call('get', '/.well-known/jwks.json?team=%00')).body, { keys: [] });
});

test.run();

function verify(jwt: string) {
  return world.call('post', `${PATH}/verify`, { jwt });
}
