import { randomBytes } from 'node:crypto';
import { decodeProtectedHeader } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, type Started } from '../../../tests/helpers/world.ts';
import { callsOf, column, makeWorld, must, refused } from './helpers/calls.ts';

// Everything encrypted under the master key is bound to its place, and moves to a new master key without a gap.
const PATH = '/api/v1/jwt';
const [old, fresh] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
const world = await makeWorld(['api'], { MASTER_KEY: old });
const { post } = callsOf(world);

test("a signing key's ciphertext opens only in its own row: in another row it signs nothing", async () => {
  const other = await world.newTeam();
  await must(201, sign(world.api));
  await must(201, sign(world.api, { token: other.token }));
  const swap = () => world.sql`
    update signing_keys a set private_encrypted = b.private_encrypted from signing_keys b
    where a.kid <> b.kid and a.retired_at is null and b.retired_at is null`;
  await swap();
  for (const token of [world.team.token, other.token]) await refused(50001, sign(world.api, { token }));
  await swap();
  await must(201, sign(world.api, { token: other.token }));
});

test('master key and signing keys are replaced with overlap: no JWT and no kept answer is lost', async () => {
  const headers = { 'Idempotency-Key': 'across' };
  const before = (await must(201, sign(world.api, { headers }))).body.jwt;
  const { kid } = decodeProtectedHeader(before);
  const namesOfKeys = async () =>
    column(await world.sql`select distinct sealed_under as name from signing_keys`, 'name');
  const underOld = await namesOfKeys();

  // 1. All programs learn the new key and still use the old one. 2. All use the new key and still know the old one.
  const learned = await world.start('api', { MASTER_KEY: old, MASTER_KEY_PREVIOUS: fresh });
  await world.api.stop();
  assert.equal(await namesOfKeys(), underOld);
  const changed = await world.start('api', { MASTER_KEY: fresh, MASTER_KEY_PREVIOUS: old });
  await eventually('all is under the new key', async () => {
    const names = await namesOfKeys();
    return names.length === 1 && names[0] !== underOld[0];
  });
  for (const api of [learned, changed]) {
    const { jwt } = (await must(201, sign(api))).body;
    assert.is(decodeProtectedHeader(jwt).kid, kid, 'both sign with the same key');
    assert.is((await must(201, sign(api, { headers }))).body.jwt, before, 'a kept answer opens');
    assert.is((await world.call('post', `${api.url}${PATH}/verify`, { jwt: before })).body.status, 'VALID');
  }
  await learned.stop();

  // 3. All forget the old key.
  const forgot = await world.start('api', { MASTER_KEY: fresh });
  assert.is(decodeProtectedHeader((await must(201, sign(forgot))).body.jwt).kid, kid);
  const rotated = await post(`${forgot.url}${PATH}/rotate`);
  const after = (await must(201, sign(forgot))).body.jwt;
  assert.is(decodeProtectedHeader(after).kid, rotated);
  for (const jwt of [before, after])
    assert.is((await world.call('post', `${forgot.url}${PATH}/verify`, { jwt })).body.status, 'VALID');

  // A program with only the old key opens nothing any more.
  const behind = await world.start('api', { MASTER_KEY: old });
  await must(500, sign(behind));
});

const sign = (api: Started, options: object = {}) => world.call('post', api.url + PATH, { payload: {} }, options);
