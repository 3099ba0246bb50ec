import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { hashKeyText, keyShard } from '../../../../shared/values/key-text.ts';
import { loadShard } from '../../sync/sync.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { makeBackground, lookedUp } from '../../tests/helpers/background.ts';

const PATH = '/api/v1/access-token';
const world = await joinWorld();
const background = makeBackground(world);

test('a token is created, listed, used and revoked, and says which token made it', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const workspaceId = await world.newWorkspace(teamId);
  const permissions = ['workspace:read', 'key:verify'] as const;
  const body = { name: 'gateway', permissions, workspaceIds: [workspaceId], expiresAt: Date.now() + 60_000 };
  const made = await must(201, world.call('post', PATH, body, { token: admin }));
  const { token, ...described } = made.body.accessToken;
  assert.match(described.id, /^tok_[0-9a-z]{26}$/);
  assert.match(token, /^kt_[0-9]{2}[0-9A-Za-z]{32}$/);
  const listed = async () => (await must(200, world.call('get', PATH, undefined, { token: admin }))).body.accessTokens;
  const [operator, ...others] = await listed();
  assert.not.ok('createdBy' in operator, 'an operator made it, and no token');
  const { id, createdAt } = described;
  const maskedToken = `${token.slice(0, 7)}****${token.slice(-4)}`;
  assert.equal(described, { id, ...body, maskedToken, createdBy: operator.id, revoked: false, createdAt });
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(others, [described], 'a list holds no token');
  await must(200, world.call('get', `/api/v1/workspace/${workspaceId}`, undefined, { token }));

  const revoke = async () => (await must(200, world.call('delete', `${PATH}/${id}`, undefined, { token: admin }))).body;
  const revoked = await revoke();
  const { revokedAt } = revoked.accessToken;
  assert.equal(revoked.accessToken, { ...described, revoked: true, revokedAt });
  assert.equal(await revoke(), revoked, 'again');
  assert.equal((await listed())[1], revoked.accessToken, 'a revoked token stays listed');
  assert.equal((await world.call('get', `${PATH}/${id}`, undefined, { token: admin })).body, {
    accessToken: revoked.accessToken,
  });
});

test('every server refuses a token from its revocation or its end on, and takes a new one at once', async () => {
  for (const end of [
    ({ id }: Token) => must(200, world.call('delete', `${PATH}/${id}`)),
    ({ id }: Token) => expire(id, 1),
  ]) {
    const token = await newToken({ permissions: ['key:verify', 'workspace:read'], expiresAt: Date.now() + 60_000 });
    assert.equal(await usesOf(token), [undefined, undefined, undefined]);
    await end(token);
    assert.equal(await usesOf(token), [40102, 40102, 40102]);
  }
});

test('an expired token leaves Redis a day later, gets the same answer before and after, and no rebuild brings it back', async () => {
  const passing = await newToken({ permissions: ['key:verify'], expiresAt: Date.now() + 60_000 });
  const { id, token } = passing;
  const shard = keyShard(token)!;
  const { client } = world.redis.node(shard);
  const name = keyspace.token(shard, hashKeyText(token));
  const ttl = async (least: number) => {
    const seconds = await client.ttl(name);
    assert.ok(seconds > least && seconds <= least + 60, String(seconds));
  };
  const isLoaded = async () => {
    for await (const entries of loadShard(world.sql, shard)) if (entries.some((entry) => entry.id === id)) return true;
    return false;
  };
  await ttl(86_400);
  assert.ok(await isLoaded());
  // Two days ago its lifetime in Redis counts from when it is applied.
  await expire(id, 2 * 86_400_000);
  assert.is((await usesOf(passing))[1], 40102);
  await ttl(86_340);
  assert.not.ok(await isLoaded());
  await client.del(name);
  assert.is((await usesOf(passing))[1], 40102);
});

test('a token grants only what it holds: permissions, workspaces and time', async () => {
  const [ours, other] = [await world.newWorkspace(world.team.id), await world.newWorkspace(world.team.id)];
  const expiresAt = Date.now() + 60_000;
  for (const [parent, granted, refused] of [
    [{}, [{}], [{ permissions: ['key:read', 'key:write'] }]],
    [
      { workspaceIds: [ours] },
      [{ workspaceIds: [ours] }],
      [{}, { workspaceIds: [other] }, { workspaceIds: [ours, other] }],
    ],
    [{ expiresAt }, [{ expiresAt }], [{}, { expiresAt: expiresAt + 1 }]],
  ] as const) {
    const { token } = await newToken({ permissions: ['token:write', 'key:read'], ...parent });
    const create = async (more: object) =>
      (await world.call('post', PATH, { name: 'child', permissions: ['key:read'], ...more }, { token })).body;
    for (const more of granted) assert.ok((await create(more)).accessToken, JSON.stringify(more));
    for (const more of refused) assert.is((await create(more)).error.code, 40303, JSON.stringify(more));
  }
});

test('a token limited to workspaces sees and revokes only tokens limited to them too', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const [ours, other] = [await world.newWorkspace(teamId), await world.newWorkspace(teamId)];
  const permissions: Permission[] = ['token:write'];
  const limited = await newToken({ permissions, workspaceIds: [ours] }, admin);
  const sibling = await newToken({ permissions, workspaceIds: [ours] }, admin);
  const wider = await newToken({ permissions, workspaceIds: [ours, other] }, admin);
  const options = { token: limited.token };
  const { accessTokens } = (await world.call('get', PATH, undefined, options)).body;
  assert.equal(
    accessTokens.map((one: { id: string }) => one.id),
    [limited.id, sibling.id],
  );
  assert.is((await world.call('delete', `${PATH}/${wider.id}`, undefined, options)).body.error.code, 40405);
  await must(200, world.call('delete', `${PATH}/${sibling.id}`, undefined, options));
});

test('an unknown workspace and an end in the past are refused by name, and an end in seconds with a hint', async () => {
  for (const [more, code, field] of [
    [{ workspaceIds: ['ws_01h455vb4pex5vsknk084sn02q'] }, 40008, '/workspaceIds/0'],
    [{ workspaceIds: [await world.newWorkspace(world.team.id), 'a\u0000'] }, 40008, '/workspaceIds/1'],
    [{ expiresAt: Date.now() - 1 }, 40004, '/expiresAt'],
    [{ expiresAt: Math.floor(Date.now() / 1000) + 3600 }, 40004, '/expiresAt'],
  ] as const) {
    const { error } = (await world.call('post', PATH, { name: 'n', permissions: ['key:read'], ...more })).body;
    assert.equal([error.code, error.details[0].path], [code, field]);
  }
});

type NewToken = { permissions: Permission[]; workspaceIds?: readonly string[]; expiresAt?: number };
type Token = { id: string; token: string };

async function newToken(body: NewToken, by = world.team.token): Promise<Token> {
  return (await must(201, world.call('post', PATH, { name: 'test', ...body }, { token: by }))).body.accessToken;
}

/** Lets a token have expired so long ago. */
async function expire(id: string, agoMs: number): Promise<void> {
  await world.sql`update access_tokens set expires_at = ${Date.now() - agoMs} where id = ${id}`;
  await background.apply('token', id);
}

/** The error that each use of a token gets: on the api from Postgres and from Redis, and on verify. */
async function usesOf({ token }: Token): Promise<(number | undefined)[]> {
  const options = { token: null, headers: lookedUp(token) };
  const verify = '/api/v1/api-key/verify';
  const answers = await Promise.all([
    world.call('get', '/api/v1/workspace', undefined, options),
    world.call('post', verify, { key: 'none' }, options),
    world.call('post', world.verify.url + verify, { key: 'none' }, options),
  ]);
  return answers.map(({ body }) => body.error?.code);
}
