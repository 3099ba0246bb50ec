import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { hashKeyText, keyShard } from '../../../../shared/values/key-text.ts';
import { loadShard } from '../../sync/entries.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld, type World } from '../../../../tests/helpers/world.ts';
import { connectBackground, lookedUp, type Background } from '../../tests/helpers/background.ts';

const PATH = '/api/v1/access-token';
let world: World;
let background: Background;
const test = suite('access tokens');
test.before(async () => {
  world = await joinWorld();
  background = await connectBackground(world);
});
test.after(async () => {
  await background?.stop();
  await world?.stop();
});

test('a token is created, listed, used and revoked', async () => {
  const { token: admin } = await world.newTeam();
  const workspaceId = await newWorkspace(admin);
  const expiresAt = Date.now() + 60_000;
  const body = {
    name: 'gateway',
    permissions: ['workspace:read', 'key:verify'],
    workspaceIds: [workspaceId],
    expiresAt,
  };
  const made = await world.call('post', PATH, body, { token: admin });
  assert.is(made.status, 201, made.text);
  const { token, ...described } = made.body.accessToken;
  assert.match(described.id, /^tok_[0-9a-z]{26}$/);
  assert.match(token, /^kt_[0-9]{2}[0-9A-Za-z]{32}$/);
  const { id, createdAt } = described;
  const maskedToken = `${token.slice(0, 7)}****${token.slice(-4)}`;
  const { createdBy } = described;
  assert.equal(described, { id, ...body, maskedToken, createdBy, revoked: false, createdAt });
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

  const { accessTokens } = (await world.call('get', PATH, undefined, { token: admin })).body;
  assert.is(accessTokens.length, 2);
  assert.equal(accessTokens[1], described);
  assert.not.ok(JSON.stringify(accessTokens).includes(token.slice(8, -5)), 'a list holds no token');
  assert.is((await world.call('get', `/api/v1/workspace/${workspaceId}`, undefined, { token })).status, 200);

  const revoked = await world.call('delete', `${PATH}/${id}`, undefined, { token: admin });
  assert.is(revoked.status, 200, revoked.text);
  const { revokedAt } = revoked.body.accessToken;
  assert.equal(revoked.body.accessToken, { ...described, revoked: true, revokedAt });
  assert.equal((await world.call('delete', `${PATH}/${id}`, undefined, { token: admin })).body, revoked.body);
  const listed = (await world.call('get', PATH, undefined, { token: admin })).body.accessTokens;
  assert.equal(listed[1], revoked.body.accessToken, 'a revoked token stays listed');
});

test('every server refuses a token from its revocation or its end on, and takes a new one at once', async () => {
  const granted: Permission[] = ['key:verify', 'workspace:read'];
  for (const end of [
    ({ id }: Token) => must(200, world.call('delete', `${PATH}/${id}`)),
    async ({ id }: Token) => {
      await world.sql`update access_tokens set expires_at = ${Date.now() - 1} where id = ${id}`;
      await background.apply('token', id);
    },
  ]) {
    const token = await newToken({ permissions: granted, expiresAt: Date.now() + 60_000 });
    assert.equal(await usesOf(token), [undefined, undefined, undefined]);
    await end(token);
    assert.equal(await usesOf(token), [40102, 40102, 40102]);
  }
});

test('an expired token leaves Redis a day later, gets the same answer before and after, and no rebuild brings it back', async () => {
  const passing = await newToken({ permissions: ['key:verify'], expiresAt: Date.now() + 60_000 });
  const { id, token } = passing;
  const shard = keyShard(token)!;
  const { client } = background.redis.node(shard);
  const name = keyspace.token(shard, hashKeyText(token));
  const seconds = await client.ttl(name);
  assert.ok(seconds > 86_400 && seconds <= 86_460, String(seconds));
  const isLoaded = async () => {
    for await (const entries of loadShard(world.sql, shard)) if (entries.some((entry) => entry.id === id)) return true;
    return false;
  };
  assert.ok(await isLoaded());
  // Two minutes ago, and then two days ago: as long as it expires and as it is applied again.
  for (const minutes of [2, 2 * 1440]) {
    await world.sql`update access_tokens set expires_at = ${Date.now() - minutes * 60_000} where id = ${id}`;
    await background.apply('token', id);
    assert.is((await usesOf(passing))[1], 40102);
    const left = await client.ttl(name);
    assert.ok(left > 86_000 && left <= 86_400, String(left));
  }
  assert.not.ok(await isLoaded());
  await client.del(name);
  assert.is((await usesOf(passing))[1], 40102);
  const lasting = (await newToken({ permissions: ['key:verify'] })).token;
  assert.is(
    await background.redis
      .node(keyShard(lasting)!)
      .client.ttl(keyspace.token(keyShard(lasting)!, hashKeyText(lasting))),
    -1,
  );
});

test('a token grants only what it holds: permissions, workspaces and time', async () => {
  const [ours, other] = [await newWorkspace(), await newWorkspace()];
  const create = async (token: string, body: Record<string, unknown>) =>
    (await world.call('post', PATH, { name: 'child', permissions: ['key:read'], ...body }, { token })).body;

  const lesser = (await newToken({ permissions: ['token:write', 'key:read'] })).token;
  assert.ok((await create(lesser, {})).accessToken);
  const refused = await create(lesser, { permissions: ['key:read', 'key:write'] });
  assert.is(refused.error.code, 40303);
  assert.match(refused.error.message, 'lacks key:write');

  const limited = (await newToken({ permissions: ['token:write', 'key:read'], workspaceIds: [ours] })).token;
  assert.ok((await create(limited, { workspaceIds: [ours] })).accessToken);
  for (const body of [{}, { workspaceIds: [other] }, { workspaceIds: [ours, other] }]) {
    assert.is((await create(limited, body)).error.code, 40303);
  }

  const expiresAt = Date.now() + 60_000;
  const passing = (await newToken({ permissions: ['token:write', 'key:read'], expiresAt })).token;
  assert.ok((await create(passing, { expiresAt })).accessToken);
  for (const body of [{}, { expiresAt: expiresAt + 1 }]) assert.is((await create(passing, body)).error.code, 40303);
});

test('a token limited to workspaces sees and revokes only tokens limited to them too', async () => {
  const { token: admin } = await world.newTeam();
  const [ours, other] = [await newWorkspace(admin), await newWorkspace(admin)];
  const permissions: Permission[] = ['token:write'];
  const limited = await newToken({ permissions, workspaceIds: [ours] }, admin);
  const sibling = await newToken({ permissions, workspaceIds: [ours] }, admin);
  const wider = await newToken({ permissions, workspaceIds: [ours, other] }, admin);
  const full = await newToken({ permissions }, admin);
  const options = { token: limited.token };
  const { accessTokens } = (await world.call('get', PATH, undefined, options)).body;
  assert.equal(
    accessTokens.map((one: { id: string }) => one.id),
    [limited.id, sibling.id],
  );
  for (const { id } of [wider, full]) {
    assert.is((await world.call('delete', `${PATH}/${id}`, undefined, options)).body.error.code, 40405);
  }
  assert.is((await world.call('delete', `${PATH}/${sibling.id}`, undefined, options)).status, 200);
});

test('bad input is a 400 that names the field', async () => {
  const good = { name: 'n', permissions: ['key:read'] };
  for (const [body, code, field] of [
    [{ ...good, name: undefined }, 40001, '/name'],
    [{ ...good, permissions: undefined }, 40001, '/permissions'],
    [{ ...good, permissions: [] }, 40001, '/permissions'],
    [{ ...good, permissions: ['key:everything'] }, 40001, '/permissions/0'],
    [{ ...good, permissions: ['key:read', 'key:read'] }, 40001, '/permissions'],
    [{ ...good, workspaceIds: [] }, 40001, '/workspaceIds'],
    [{ ...good, workspaceIds: 'ws' }, 40001, '/workspaceIds'],
    [{ ...good, workspaceIds: ['ws_01h455vb4pex5vsknk084sn02q'] }, 40008, '/workspaceIds/0'],
    [{ ...good, workspaceIds: [await newWorkspace(), 'a\u0000'] }, 40008, '/workspaceIds/1'],
    [{ ...good, expiresAt: '2030' }, 40001, '/expiresAt'],
    [{ ...good, expiresAt: Date.now() - 1 }, 40004, '/expiresAt'],
    [{ ...good, teamId: 'team' }, 40001, '/teamId'],
  ] as const) {
    const { error } = (await must(400, world.call('post', PATH, body))).body;
    assert.equal([error.code, error.details[0].path], [code, field]);
  }
  const inSeconds = await world.call('post', PATH, { ...good, expiresAt: Math.floor(Date.now() / 1000) + 3600 });
  assert.match(inSeconds.body.error.message, 'looks like seconds');
  const theirs = await newWorkspace((await world.newTeam()).token);
  assert.is((await world.call('post', PATH, { ...good, workspaceIds: [theirs] })).body.error.code, 40008);
});

test('what is no id of a token is answered like that of an unknown one', async () => {
  for (const id of ['tok_01h455vb4pex5vsknk084sn02q', 'x', '%00'])
    for (const method of ['get', 'delete'])
      assert.is((await world.call(method, `${PATH}/${id}`)).body.error.code, 40405);
});

test.run();

type NewToken = { name?: string; permissions: Permission[]; workspaceIds?: string[]; expiresAt?: number };
type Token = { id: string; token: string };

async function newToken(body: NewToken, by = world.team.token): Promise<Token> {
  return (await must(201, world.call('post', PATH, { name: 'test', ...body }, { token: by }))).body.accessToken;
}

async function newWorkspace(by = world.team.token): Promise<string> {
  return (await world.call('post', '/api/v1/workspace', { name: 'w' }, { token: by })).body.workspace.id;
}

/** The error that each use of a token gets: on the api from Postgres and from Redis, and on verify. */
async function usesOf({ token }: Token): Promise<(number | undefined)[]> {
  const options = { token: null, headers: lookedUp(token) };
  const verify = '/api/v1/api-key/verify';
  const answers = await Promise.all([
    world.call('get', '/api/v1/workspace', undefined, options),
    world.call('post', verify, { key: 'none' }, options),
    world.call('post', world.verify!.url + verify, { key: 'none' }, options),
  ]);
  return answers.map(({ body }) => body.error?.code);
}
