import { generateKeyPairSync, randomUUID, type KeyObject } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, exportJWK, jwtVerify, SignJWT } from 'jose';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres } from '../../../../shared/stores/postgres.ts';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';
import { makeSigningKeys } from '../../resources/jwts/signing-keys.ts';

const PATH = '/api/v1/jwt';
let world: World;
const test = suite('JWTs');
test.before(async () => {
  world = await makeWorld();
});
test.after(() => world?.stop());

test('a JWT is signed, verified by the service, and verified by its published key', async () => {
  const payload = { sub: 'user-1', roles: ['a', 'b'], deep: { more: [1, 2.5, null, true] } };
  const before = Date.now() / 1000;
  const made = await world.call('post', PATH, { payload, aud: 'shop', exp: 60 });
  assert.is(made.status, 201, made.text);
  assert.equal(Object.keys(made.body), ['jwt']);
  const { jwt } = made.body;

  const claims = decodeJwt(jwt);
  assert.is(claims.iss, world.team.id);
  assert.match(claims.jti!, /^[0-9a-f-]{36}$/);
  assert.is(claims.exp, claims.iat! + 60);
  assert.ok(claims.iat! > before - 5 && claims.iat! < Date.now() / 1000 + 5);
  const verified = await verify(jwt);
  assert.is(verified.status, 200, verified.text);
  assert.equal(verified.body, { status: 'VALID', payload, exp: claims.exp, aud: 'shop' });

  const published = (
    await world.call('get', `/.well-known/jwks.json?team=${world.team.id}`, undefined, { token: null })
  ).body;
  const { kid } = decodeProtectedHeader(jwt);
  const [key, next] = published.keys;
  assert.equal(key, { kty: 'OKP', crv: 'Ed25519', x: key.x, kid, alg: 'EdDSA', use: 'sig' });
  assert.equal(Object.keys(next), Object.keys(key), 'the next key is published already');
  assert.is(published.keys.length, 2);
  const outside = await jwtVerify(jwt, createLocalJWKSet(published), { issuer: world.team.id, audience: 'shop' });
  assert.is(outside.payload.sub, 'user-1');
});

test('without aud and exp, a JWT lives for an hour and names no recipient', async () => {
  const { jwt } = (await world.call('post', PATH, { payload: {} })).body;
  const { exp, iat } = decodeJwt(jwt);
  assert.is(exp! - iat!, 3600);
  assert.equal((await verify(jwt)).body, { status: 'VALID', payload: {}, exp });
});

test('a JWT expires on the second, and then keeps its payload', async () => {
  const { jwt } = (await world.call('post', PATH, { payload: { a: 1 }, aud: 'x', exp: 1 })).body;
  const { exp } = decodeJwt(jwt);
  await sleep(exp! * 1000 - Date.now() + 20);
  assert.equal((await verify(jwt)).body, { status: 'EXPIRED', payload: { a: 1 }, exp, aud: 'x' });
  const [head, , signature] = jwt.split('.');
  const longer = Buffer.from(JSON.stringify({ ...decodeJwt(jwt), exp: exp! + 3600 })).toString('base64url');
  assert.equal((await verify(`${head}.${longer}.${signature}`)).body, { status: 'INVALID' });
});

test('a JWT that the service did not sign for this team is INVALID, and its payload is not answered', async () => {
  const { jwt } = (await world.call('post', PATH, { payload: { a: 1 } })).body;
  const [head, body, signature] = jwt.split('.');
  const { kid } = decodeProtectedHeader(jwt);
  const claims = decodeJwt(jwt);
  const ours = generateKeyPairSync('ed25519');
  const ownJwk = await exportJWK(ours.publicKey);
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = (header: Record<string, unknown>, key: KeyObject | Uint8Array = ours.privateKey) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA', ...header }).sign(key);
  const publicKeyAsSecret = Buffer.from(
    (await world.call('get', `/team/${world.team.id}/.well-known/jwks.json`)).body.keys[0].x,
    'base64url',
  );
  const other = await world.newTeam();
  const theirs = (await world.call('post', PATH, { payload: { a: 1 } }, { token: other.token })).body.jwt;

  const forged: Record<string, string> = {
    'another team': theirs,
    empty: '',
    'no JWT': 'x.y',
    'five parts': 'a.b.c.d.e',
    'a changed payload': `${head}.${part({ ...claims, a: 2 })}.${signature}`,
    'no signature': `${head}.${body}.`,
    'alg none': `${part({ alg: 'none', kid })}.${body}.`,
    'the public key as a secret': await signed({ alg: 'HS256', kid }, publicKeyAsSecret),
    'another key under our kid': await signed({ kid }),
    'a key of its own in the header': await signed({ kid, jwk: ownJwk }),
    'a place to fetch the key from': await signed({ kid, jku: 'http://127.0.0.1:1/jwks.json' }),
    'no kid': await signed({ jwk: ownJwk }),
    'an unknown kid': await signed({ kid: 'x'.repeat(43) }),
    'a kid that is a number': `${part({ alg: 'EdDSA', kid: 5 })}.${body}.${signature}`,
    'a kid with NUL': await signed({ kid: '\u0000' }),
    "another team's kid": await signed({ kid: decodeProtectedHeader(theirs).kid! }),
  };
  for (const [name, text] of Object.entries(forged)) {
    const answer = await verify(text);
    assert.is(answer.status, 200, `${name}: ${answer.text}`);
    assert.equal(answer.body, { status: 'INVALID' }, name);
  }
});

test('a JWT of our own key is INVALID with a foreign issuer, a critical header or a missing claim', async () => {
  // Signed with the real key: only checks beyond the signature can refuse these JWTs.
  const sql = connectPostgres(world.env.DATABASE_URL!, { max: 1 });
  const keys = makeSigningKeys([Buffer.from(world.env.MASTER_KEY!, 'base64')]);
  const { kid, privateKey } = await sql.begin((tx) => keys.current(tx, world.team.id, 60));
  await sql.end();
  const now = Math.floor(Date.now() / 1000);
  const good = { iss: world.team.id, iat: now, exp: now + 60, jti: 'x' };
  const sign = (claims: Record<string, unknown>, header: Record<string, unknown> = {}) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA', kid, ...header }).sign(privateKey, { crit: { ext: true } });
  assert.is((await verify(await sign(good))).body.status, 'VALID');
  assert.is((await verify(await sign({ ...good, exp: now }))).body.status, 'EXPIRED', 'no tolerance');
  const other = await world.newTeam();
  assert.equal((await verify(await sign({ ...good, iss: other.id }))).body, { status: 'INVALID' });
  assert.equal((await verify(await sign({ ...good, nbf: now + 60 }))).body, { status: 'INVALID' });
  assert.equal((await verify(await sign(good, { crit: ['ext'], ext: 1 }))).body, { status: 'INVALID' });
  for (const claim of ['iss', 'iat', 'exp', 'jti'] as const) {
    const { [claim]: _, ...lacking } = good;
    assert.equal((await verify(await sign(lacking))).body, { status: 'INVALID' }, claim);
  }
});

test('bad input is a 400 that names the field', async () => {
  const nested = (levels: number) => JSON.parse('{"a":'.repeat(levels) + '1' + '}'.repeat(levels)) as unknown;
  for (const [path, body, code, field] of [
    ['', {}, 40001, '/payload'],
    ['', { payload: [] }, 40001, '/payload'],
    ['', { payload: 'text' }, 40001, '/payload'],
    ['', { payload: { a: 'x'.repeat(4096) } }, 40001, '/payload'],
    ['', { payload: nested(11) }, 40001, '/payload'],
    ['', { payload: { constructor: 1 } }, 40001, '/payload'],
    ['', { payload: { a: [{ prototype: 1 }] } }, 40001, '/payload'],
    ['', { payload: {}, aud: '' }, 40001, '/aud'],
    ['', { payload: {}, aud: 'x'.repeat(257) }, 40001, '/aud'],
    ['', { payload: {}, aud: ['x'] }, 40001, '/aud'],
    ['', { payload: {}, exp: 0 }, 40001, '/exp'],
    ['', { payload: {}, exp: 31_536_001 }, 40001, '/exp'],
    ['', { payload: {}, exp: 1.5 }, 40001, '/exp'],
    ['', { payload: {}, expires: 5 }, 40001, '/expires'],
    ['', { payload: { exp: 5 } }, 40005, '/payload/exp'],
    ['', { payload: { iss: 'me', nbf: 1 } }, 40005, '/payload/nbf'],
    ['/verify', {}, 40001, '/jwt'],
    ['/verify', { jwt: 5 }, 40001, '/jwt'],
  ] as const) {
    const answer = await world.call('post', PATH + path, body);
    assert.is(answer.status, 400, answer.text);
    assert.is(answer.body.error.code, code, answer.text);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === field),
      `${field}: ${answer.text}`,
    );
  }
  assert.match((await world.call('post', PATH, { payload: { jti: 1, aud: 2 } })).body.error.message, /sets aud, jti;/);
  for (const raw of ['{"payload":{"__proto__":{"a":1}}}', `{"payload":${'['.repeat(20_000)}${']'.repeat(20_000)}}`]) {
    assert.is((await world.call('post', PATH, undefined, { raw })).status, 400, raw.slice(0, 40));
  }
  const raw = '['.repeat(30_000) + ']'.repeat(30_000);
  const deep = await world.call('post', `${PATH}/rotate`, undefined, { raw, headers: { 'Idempotency-Key': 'deep' } });
  assert.is(deep.status, 400, 'a body is checked even where none is expected');
  assert.is((await world.call('post', PATH, { payload: nested(10) })).status, 201);
  assert.is((await world.call('post', PATH, { payload: {}, exp: 31_536_000 })).status, 201);
});

test('each operation needs a token and its own permission', async () => {
  for (const [path, body, needed, other] of [
    ['', { payload: {} }, 'jwt:sign', 'jwt:verify'],
    ['/verify', { jwt: 'x' }, 'jwt:verify', 'jwt:sign'],
    ['/rotate', undefined, 'token:write', 'jwt:sign'],
    ['/revoke', { jti: randomUUID() }, 'jwt:revoke', 'jwt:sign'],
  ] as const) {
    const code = async (token: string | null) =>
      (await world.call('post', PATH + path, body, { token })).body.error?.code;
    assert.is(await code(null), 40101);
    assert.is(await code(await world.newToken(world.team.id, [other])), 40301);
    assert.is(await code(await world.newToken(world.team.id, [needed])), undefined);
  }
});

test('an Idempotency-Key gives the same JWT again', async () => {
  const headers = { 'Idempotency-Key': 'jwt-once' };
  const answers = await Promise.all([1, 2, 3].map(() => world.call('post', PATH, { payload: { a: 1 } }, { headers })));
  for (const answer of answers) assert.equal([answer.status, answer.body], [201, answers[0]!.body]);
  const kept = await world.sql`select answer from idempotency_keys where answer is not null`;
  for (const { answer } of kept) assert.not.ok((answer as Buffer).includes('jwt'), 'stored encrypted');
});

test.run();

function verify(jwt: string) {
  return world.call('post', `${PATH}/verify`, { jwt });
}
