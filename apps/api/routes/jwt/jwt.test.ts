import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, exportJWK, jwtVerify, SignJWT } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../../shared/values/ids.ts';
import { checkJwt } from '../../resources/jwts/jwts.ts';
import { claimsOf, keySetOf, makeJwts, PATH } from './helpers/jwts.ts';
import { callsOf, joinWorld, newWorkspace, refused } from '../../tests/helpers/calls.ts';

const CLAIM = 'keytally_workspaces';
const world = await joinWorld();
const { remove } = callsOf(world);
const jwts = makeJwts(world);
const [a, b, c] = [await newWorkspace(world), await newWorkspace(world), await newWorkspace(world)];

test('a JWT is signed, verified by the service, and verified by its published key', async () => {
  const { team } = world;
  const payload = { sub: 'user-1', roles: ['a', 'b'], deep: { more: [1, 2.5, null, true] } };
  const before = Date.now() / 1000;
  const jwt = await jwts.sign(team, { payload, aud: 'shop', exp: 60 });
  const claims = decodeJwt(jwt);
  assert.is(claims.iss, team.id);
  assert.match(claims.jti!, /^[0-9a-f-]{36}$/);
  assert.is(claims.exp, claims.iat! + 60);
  assert.ok(claims.iat! > before - 5 && claims.iat! < Date.now() / 1000 + 5);
  assert.equal(await jwts.verify(team, jwt), { status: 'VALID', payload, exp: claims.exp, aud: 'shop' });

  const published = (await world.call('get', keySetOf(team), undefined, { token: null })).body;
  const { kid } = decodeProtectedHeader(jwt);
  const [key, next] = published.keys;
  assert.equal(key, { kty: 'OKP', crv: 'Ed25519', x: key.x, kid, alg: 'EdDSA', use: 'sig' });
  assert.equal(Object.keys(next), Object.keys(key), 'the next key is published already');
  const outside = await jwtVerify(jwt, createLocalJWKSet(published), { issuer: team.id, audience: 'shop' });
  assert.is(outside.payload.sub, 'user-1');

  const plain = decodeJwt(await jwts.sign(team));
  assert.is(plain.exp! - plain.iat!, 3600, 'it lives for an hour');
  assert.not.ok('aud' in plain, 'it names no recipient');
});

test('a JWT expires on the second, and then keeps its payload', async () => {
  const { team } = world;
  const jwt = await jwts.sign(team, { payload: { a: 1 }, exp: 60 });
  const { exp } = decodeJwt(jwt);
  const statusAt = async (ms: number) =>
    (await checkJwt(world.sql, { teamId: team.id, workspaceIds: undefined }, jwt, new Date(ms))).status;
  assert.equal([await statusAt(exp! * 1000 - 1), await statusAt(exp! * 1000)], ['VALID', 'EXPIRED']);

  const over = { ...claimsOf(team, -60), a: 1, aud: 'x' };
  const expired = await jwts.signBy(team, over);
  assert.equal(await jwts.verify(team, expired), { status: 'EXPIRED', payload: { a: 1 }, exp: over.exp, aud: 'x' });
  const [head, , signature] = expired.split('.');
  const longer = `${head}.${part({ ...over, exp: over.exp + 3600 })}.${signature}`;
  assert.equal(await jwts.verify(team, longer), { status: 'INVALID' });
});

test('a JWT that the service did not sign for this team, or that lacks a claim, is INVALID, and its payload is not answered', async () => {
  const { team } = world;
  const jwt = await jwts.sign(team, { payload: { a: 1 } });
  const [head, body, signature] = jwt.split('.');
  const { kid } = decodeProtectedHeader(jwt);
  const claims = decodeJwt(jwt);
  const ours = generateKeyPairSync('ed25519');
  const ownJwk = await exportJWK(ours.publicKey);
  const signed = (header: Record<string, unknown>, key: KeyObject | Uint8Array = ours.privateKey) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA', ...header }).sign(key);
  const publicKey = Buffer.from((await world.call('get', keySetOf(team))).body.keys[0].x, 'base64url');
  const other = await world.newTeam();
  const theirs = await jwts.sign(other, { payload: { a: 1 } });
  // With the real key: only checks beyond the signature can refuse these.
  const good = claimsOf(team, 60);
  const byUs = (more: object, header = {}) => jwts.signBy(team, { ...good, ...more }, header);
  assert.is((await jwts.verify(team, await byUs({}))).status, 'VALID');
  for (const [name, text] of Object.entries({
    'another team': theirs,
    empty: '',
    'no JWT': 'x.y',
    'five parts': 'a.b.c.d.e',
    'a changed payload': `${head}.${part({ ...claims, a: 2 })}.${signature}`,
    'no signature': `${head}.${body}.`,
    'alg none': `${part({ alg: 'none', kid })}.${body}.`,
    'the public key as a secret': await signed({ alg: 'HS256', kid }, publicKey),
    'another key under our kid': await signed({ kid }),
    'a key of its own in the header': await signed({ kid, jwk: ownJwk }),
    'a place to fetch the key from': await signed({ kid, jku: 'http://127.0.0.1:1/jwks.json' }),
    'no kid': await signed({ jwk: ownJwk }),
    'an unknown kid': await signed({ kid: 'x'.repeat(43) }),
    'a kid that is a number': `${part({ alg: 'EdDSA', kid: 5 })}.${body}.${signature}`,
    'a kid with NUL': await signed({ kid: '\u0000' }),
    "another team's kid": await signed({ kid: decodeProtectedHeader(theirs).kid! }),
    'a foreign issuer': await byUs({ iss: other.id }),
    'a begin that is to come': await byUs({ nbf: good.exp }),
    'a critical header': await byUs({}, { crit: ['ext'], ext: 1 }),
    'no iss': await byUs({ iss: undefined }),
    'no iat': await byUs({ iat: undefined }),
    'no exp': await byUs({ exp: undefined }),
    'no jti': await byUs({ jti: undefined }),
  }))
    assert.equal(await jwts.verify(team, text), { status: 'INVALID' }, name);
});

test('a payload sets no claim of the service', async () => {
  for (const payload of [{ exp: 5 }, { iss: 'me', nbf: 1 }]) {
    const { details } = await refused(40005, world.call('post', PATH, { payload }));
    assert.is(details[0].path, `/payload/${Object.keys(payload)[0]}`);
  }
});

test('a JWT that is answered again is kept encrypted until then', async () => {
  const headers = { 'Idempotency-Key': 'jwt-once' };
  const answers = await Promise.all([1, 2].map(() => world.call('post', PATH, { payload: { a: 1 } }, { headers })));
  assert.equal(answers[1]!.body, answers[0]!.body);
  const kept = await world.sql`select answer from idempotency_keys where team_id = ${world.team.id}`;
  assert.ok(kept.length > 0);
  for (const { answer } of kept) assert.not.ok((answer as Buffer).includes('jwt'));
});

test('a JWT carries the workspaces that its signer is limited to, and verifying it answers them; it is INVALID for a token that may use none of them', async () => {
  const jwt = await jwts.sign(await limitedTo(b, a));
  const both = [a, b].toSorted();
  const { exp, [CLAIM]: claim } = decodeJwt(jwt);
  assert.equal(claim, both);
  const valid = { status: 'VALID', payload: {}, exp, workspaceIds: both };
  assert.equal(await jwts.verify(world.team, jwt), valid, 'the claim is not part of the payload');
  const wide = await jwts.sign(world.team);
  assert.not.ok(CLAIM in decodeJwt(wide));
  assert.not.ok('workspaceIds' in (await jwts.verify(world.team, wide)));
  const elsewhere = await limitedTo(c);
  assert.is((await jwts.verify(elsewhere, wide)).status, 'VALID', 'one of the whole team');
  assert.is((await jwts.verify(await limitedTo(b, c), jwt)).status, 'VALID');
  assert.equal(await jwts.verify(elsewhere, jwt), { status: 'INVALID', reason: 'WORKSPACE_FORBIDDEN' });
});

test('a signer may narrow a JWT to some of its own workspaces, and never name another', async () => {
  const limited = await limitedTo(a, b);
  assert.equal(decodeJwt(await jwts.sign(limited, { workspaceIds: [b] }))[CLAIM], [b]);
  assert.equal(decodeJwt(await jwts.sign(world.team, { workspaceIds: [a] }))[CLAIM], [a]);
  const foreign = await world.newWorkspace((await world.newTeam()).id);
  for (const workspaceIds of [[c], [a, c]]) await refused(40302, jwts.signing(limited, { workspaceIds }));
  for (const id of [foreign, newId('ws'), 'x'])
    await refused(40302, jwts.signing(world.team, { workspaceIds: [id] }), id);
  for (const claim of [[c], null]) await refused(40005, jwts.signing(limited, { payload: { [CLAIM]: claim } }));
});

test('a JWT whose workspaces are all deleted is INVALID, and none can be signed for them', async () => {
  const [gone, left] = [await newWorkspace(world), await newWorkspace(world)];
  const limited = await limitedTo(gone);
  const [jwt, both] = [await jwts.sign(limited), await jwts.sign(world.team, { workspaceIds: [gone, left] })];
  await remove(`/api/v1/workspace/${gone}`);
  assert.equal(await jwts.verify(world.team, jwt), { status: 'INVALID', reason: 'WORKSPACE_FORBIDDEN' });
  assert.is((await jwts.verify(world.team, both)).status, 'VALID');
  await refused(40302, jwts.signing(limited));
  assert.equal(decodeJwt(await jwts.sign(await limitedTo(gone, left)))[CLAIM], [left]);
});

test('a token of more workspaces than a JWT may carry must say which, and the longest JWT fits into a header', async () => {
  const many = await Promise.all(Array.from({ length: 33 }, () => world.newWorkspace(world.team.id)));
  const limited = await limitedTo(...many);
  await refused(40001, jwts.signing(limited));
  const longest = { payload: { a: 'x'.repeat(4080) }, workspaceIds: many.slice(1), aud: 'x'.repeat(256) };
  const jwt = await jwts.sign(limited, longest);
  assert.ok(jwt.length < 8192, `${jwt.length} characters`);
});

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

async function limitedTo(...workspaceIds: string[]): Promise<{ token: string }> {
  return { token: await world.newToken(world.team.id, ['jwt:sign', 'jwt:verify'], workspaceIds) };
}
