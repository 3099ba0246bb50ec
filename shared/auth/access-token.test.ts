import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { BEGIN_MS, connectClockedRedis } from '../../tests/helpers/clocked-redis.ts';
import { ApiError } from '../contract/errors.ts';
import { keyspace } from '../stores/keyspace.ts';
import { hashKeyText, makeKeyText } from '../values/key-text.ts';
import { limitFailures } from './failed-authentications.ts';
import { bearerToken, makeAuthenticate, packToken, tokensFromRedis } from './access-token.ts';

const SHARD = 7;
const caller = { tokenId: 'tok_1', teamId: 'team_1', permissions: new Set<string>(), workspaceIds: undefined };
const anywhere = { workspaceIds: null, allowedIps: null, expiresAt: null, teamPerSecond: null };
const settings = { tokenId: 'tok_1', teamId: 'team_1', permissions: ['key:read', 'key:verify'], ...anywhere };

const clocked = await connectClockedRedis();

/** Stores a token, and loads it at an instant as verify does. */
async function loadAt(nowMs: number, chosen: object = {}) {
  const node = clocked.redis.node(SHARD);
  const hash = hashKeyText('any');
  await node.client.hset(keyspace.meta(SHARD), { owner: node.runId(), epoch: 1 });
  await node.client.set(keyspace.token(SHARD, hash), packToken(1, { ...settings, ...chosen }));
  await clocked.setNow(nowMs);
  return tokensFromRedis(clocked.redis, 30_000)(SHARD, hash);
}

test('a caller is remembered by a header of usual length alone, and an unknown one not at all', async () => {
  let loaded = 0;
  let found: typeof caller | undefined = caller;
  const load = () => Promise.resolve((loaded++, found));
  const authenticate = makeAuthenticate(load, () => {}, makeTestClock());
  const token = makeKeyText('kt', 1);
  for (let i = 0; i < 3; i++) assert.is(await authenticate(`Bearer ${token}`), caller);
  assert.is(loaded, 1);
  // Each of these is another text, and would be remembered with its 16 KB.
  for (let i = 0; i < 3; i++) assert.is(await authenticate(`Bearer${' '.repeat(16_000)}${token}`), caller);
  assert.is(loaded, 4);
  found = undefined;
  const guess = `Bearer ${makeKeyText('kt', 1)}`;
  for (let i = 0; i < 3; i++)
    assert.is(await authenticate(guess).catch((error: ApiError) => error.errorName), 'token_unknown');
  assert.is(loaded, 7);
});

test('what nobody was recognised for is counted in its turn', async () => {
  const unknown = () => Promise.reject(new ApiError('token_unknown'));
  const begin = Promise.withResolvers<void>();
  const inTurn = limitFailures(unknown, clocked.redis, 1, () => begin.promise);
  const atOnce = limitFailures(unknown, clocked.redis, 1);
  const refusal = (authenticate: typeof atOnce) =>
    authenticate(undefined, '192.0.2.1').catch((error: ApiError) => error.errorName);
  const waiting = refusal(inTurn);
  assert.is(await refusal(atOnce), 'token_unknown');
  begin.resolve();
  assert.is(await waiting, 'too_many_failures');
});

test('a token is read as it was written: permissions, workspaces, networks and the rate of its team', async () => {
  const all = await loadAt(BEGIN_MS);
  assert.equal([all!.tokenId, all!.teamId, all!.workspaceIds], ['tok_1', 'team_1', undefined]);
  assert.equal([all!.allowedBlocks?.length ?? 0, all!.teamPerSecond], [0, undefined]);
  assert.equal([...all!.permissions], settings.permissions);
  const limited = await loadAt(BEGIN_MS, { workspaceIds: ['a', 'b'], allowedIps: ['192.0.2.0/24'], teamPerSecond: 9 });
  assert.equal([limited!.workspaceIds, limited!.teamPerSecond], [['a', 'b'], 9]);
  assert.is(limited!.allowedBlocks?.length, 1);
  assert.equal((await loadAt(BEGIN_MS, { workspaceIds: [] }))!.workspaceIds, [''], 'none, and not all of them');
});

test('a token expires at its instant, and not a millisecond before', async () => {
  const expiresAt = BEGIN_MS + 60_000;
  assert.ok(await loadAt(expiresAt - 1, { expiresAt }));
  assert.is(await loadAt(expiresAt, { expiresAt }), undefined);
  assert.ok(await loadAt(Date.UTC(2059, 0), { expiresAt: null }), 'one without an expiry never does');
});

test('a token of a shard that is not open is undecided, and never unknown', async () => {
  await loadAt(BEGIN_MS);
  await clocked.redis.node(SHARD).client.hset(keyspace.meta(SHARD), 'owner', 'another server');
  const load = tokensFromRedis(clocked.redis, 30_000)(SHARD, hashKeyText('any'));
  assert.is(await load.catch((error: ApiError) => error.errorName), 'undecided');
});

test('the scheme of a bearer token may be in any case, and nothing may stand beside it', () => {
  for (const header of ['Bearer kt_1', 'bearer  kt_1', 'BEARER kt_1 ']) assert.is(bearerToken(header), 'kt_1');
  for (const header of [undefined, '', 'Bearer', 'Bearer ', 'Basic kt_1', 'Bearer kt_1 kt_2', 'xBearer kt_1'])
    assert.throws(
      () => bearerToken(header),
      (error: ApiError) => error.errorName === 'token_missing',
    );
});
