import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { hashKeyText, keyShard } from '../../../../shared/values/key-text.ts';
import { loadShard } from '../../sync/entries.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/access-token';
const UNKNOWN_KEY = { key: 'none' };
let world: World;
const test = suite('access tokens');
test.before(async () => {
  world = await makeWorld(['api', 'verify']);
});
test.after(() => world?.stop());

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

test('an expired token leaves Redis a day later, gets the same answer before and after, and no rebuild brings it back', async () => {
  const { id, token } = await newToken({ permissions: ['key:verify'], expiresAt: Date.now() + 60_000 });
  const { token: lasting } = await newToken({ permissions: ['key:verify'] });
  const shard = keyShard(token)!;
  const name = keyspace.token(shard, hashKeyText(token));
  const redis = new Redis(world.env['REDIS_URL']!);
  const seconds = await redis.ttl(name);
  assert.ok(seconds > 86_400 && seconds <= 86_460, String(seconds));
  assert.is(await redis.ttl(keyspace.token(keyShard(lasting)!, hashKeyText(lasting))), -1);

  const answer = async () => {
    const { status, body } = await world.call('post', '/api/v1/api-key/verify', UNKNOWN_KEY, { token });
    return [status, body.error?.code];
  };
  const isLoaded = async () => {
    for await (const entries of loadShard(world.sql, shard)) if (entries.some((entry) => entry.id === id)) return true;
    return false;
  };
  assert.ok(await isLoaded());
  // Two minutes ago, and then two days ago: as long as it expires and as it is applied again.
  for (const [minutes, lifetime] of [
    [2, 86_400],
    [2 * 1440, 86_401],
  ] as const) {
    await world.sql`update access_tokens set expires_at = ${Date.now() - minutes * 60_000}, version = version + 1 where id = ${id}`;
    await world.sql`update changes set applied_at = null, created_at = now() - interval '1 hour' where entity_id = ${id}`;
    await eventually('it is refused', async () => (await answer())[0] === 401);
    assert.equal(await answer(), [401, 40102]);
    const left = await redis.ttl(name);
    assert.ok(left > 86_000 && left < lifetime, String(left));
  }
  assert.not.ok(await isLoaded());
  await redis.del(name);
  assert.equal(await answer(), [401, 40102]);
  redis.disconnect();
});

test('every server refuses a revoked token within a second, even if it was just used', async () => {
  const { id, token } = await newToken({ permissions: ['key:verify', 'workspace:read'] });
  const uses = {
    'api, from Postgres': () => world.call('get', '/api/v1/workspace', undefined, { token }),
    'api, from Redis': () => world.call('post', '/api/v1/api-key/verify', UNKNOWN_KEY, { token }),
    'verify, from Redis': () =>
      world.call('post', `${world.verify!.url}/api/v1/api-key/verify`, UNKNOWN_KEY, { token }),
  };
  for (const use of Object.values(uses)) assert.is((await use()).status, 200, 'a new token is in force at once');
  await sleep(400);
  for (const use of Object.values(uses)) assert.is((await use()).status, 200);
  assert.is((await world.call('delete', `${PATH}/${id}`)).status, 200);
  for (const [name, use] of Object.entries(uses)) {
    await eventually(`${name} refuses it`, async () => (await use()).status !== 200, 1_000);
    assert.is((await use()).body.error.code, 40102, name);
  }
});

test('an expired token is refused on every server', async () => {
  const { token, expiresAt } = await inTime(700, async (until) => ({
    ...(await newToken({ permissions: ['key:verify', 'workspace:read'], expiresAt: until })),
    expiresAt: until,
  }));
  await sleep(expiresAt + 550 - Date.now());
  assert.is((await world.call('get', '/api/v1/workspace', undefined, { token })).body.error.code, 40102);
  const verify = `${world.verify!.url}/api/v1/api-key/verify`;
  assert.is((await world.call('post', verify, UNKNOWN_KEY, { token })).body.error.code, 40102);
});

test('a token may revoke itself', async () => {
  const { id, token } = await newToken({ permissions: ['token:write'] });
  const revoked = await world.call('delete', `${PATH}/${id}`, undefined, { token });
  assert.is(revoked.body.accessToken.revoked, true, revoked.text);
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

test('a list is read page by page, each token once', async () => {
  const { token } = await world.newTeam();
  for (let i = 0; i < 4; i++) await newToken({ name: `t${i}`, permissions: ['key:read'] }, token);
  const names: string[] = [];
  let cursor = '';
  do {
    const page = await world.call('get', `${PATH}?limit=2${cursor && `&cursor=${cursor}`}`, undefined, { token });
    names.push(...page.body.accessTokens.map((one: { name: string }) => one.name));
    cursor = page.body.nextCursor ?? '';
  } while (cursor);
  assert.equal(names, ['test', 't0', 't1', 't2', 't3']);
});

test('bad input is a 400 that names the field', async () => {
  const good = { name: 'n', permissions: ['key:read'] };
  for (const [body, code, field] of [
    [{ permissions: ['key:read'] }, 40001, '/name'],
    [{ name: 'n' }, 40001, '/permissions'],
    [{ name: 'n', permissions: [] }, 40001, '/permissions'],
    [{ name: 'n', permissions: ['key:everything'] }, 40001, '/permissions/0'],
    [{ name: 'n', permissions: ['key:read', 'key:read'] }, 40001, '/permissions'],
    [{ ...good, workspaceIds: [] }, 40001, '/workspaceIds'],
    [{ ...good, workspaceIds: 'ws' }, 40001, '/workspaceIds'],
    [{ ...good, workspaceIds: ['ws_01h455vb4pex5vsknk084sn02q'] }, 40008, '/workspaceIds/0'],
    [{ ...good, workspaceIds: [await newWorkspace(), 'a\u0000'] }, 40008, '/workspaceIds/1'],
    [{ ...good, expiresAt: '2030' }, 40001, '/expiresAt'],
    [{ ...good, expiresAt: Date.now() - 1 }, 40004, '/expiresAt'],
    [{ ...good, expiresAt: Math.floor(Date.now() / 1000) + 3600 }, 40004, '/expiresAt'],
    [{ ...good, teamId: 'team' }, 40001, '/teamId'],
  ] as const) {
    const answer = await world.call('post', PATH, body);
    assert.is(answer.status, 400, answer.text);
    assert.is(answer.body.error.code, code, answer.text);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === field),
      answer.text,
    );
  }
  const inSeconds = await world.call('post', PATH, { ...good, expiresAt: Math.floor(Date.now() / 1000) + 3600 });
  assert.match(inSeconds.body.error.message, 'looks like seconds');
  const theirs = await newWorkspace((await world.newTeam()).token);
  assert.is((await world.call('post', PATH, { ...good, workspaceIds: [theirs] })).body.error.code, 40008);
});

test('no answer tells anything without a token, without the permission, or to another team', async () => {
  const { id } = await newToken({ permissions: ['key:read'] });
  const { token: lesser } = await newToken({ permissions: ['workspace:write', 'key:write'] });
  for (const [method, path, body] of [
    ['post', PATH, { name: 'n', permissions: ['key:write'] }],
    ['get', PATH, undefined],
    ['get', `${PATH}/${id}`, undefined],
    ['delete', `${PATH}/${id}`, undefined],
  ] as const) {
    assert.is((await world.call(method, path, body, { token: null })).body.error.code, 40101);
    assert.is((await world.call(method, path, body, { token: lesser })).body.error.code, 40301);
  }
  const { token } = await world.newTeam();
  for (const path of [id, 'tok_01h455vb4pex5vsknk084sn02q', 'x', '%00']) {
    for (const method of ['get', 'delete'])
      assert.is((await world.call(method, `${PATH}/${path}`, undefined, { token })).body.error.code, 40405);
  }
});

test('an Idempotency-Key gives the same token again, stored encrypted', async () => {
  const headers = { 'Idempotency-Key': 'token-once' };
  const body = { name: 'once', permissions: ['key:read'] };
  const answers = await Promise.all([1, 2, 3].map(() => world.call('post', PATH, body, { headers })));
  for (const answer of answers) assert.equal([answer.status, answer.body], [201, answers[0]!.body]);
  const [stored] = await world.sql`select count(*)::int as n from access_tokens where name = 'once'`;
  assert.is(stored!.n, 1);
  const kept = await world.sql`select answer from idempotency_keys`;
  for (const { answer } of kept) assert.not.ok((answer as Buffer).includes('accessToken'));
});

test.run();

type NewToken = { name?: string; permissions: Permission[]; workspaceIds?: string[]; expiresAt?: number };

async function newToken(body: NewToken, by = world.team.token): Promise<{ id: string; token: string }> {
  const answer = await world.call('post', PATH, { name: 'test', ...body }, { token: by });
  assert.is(answer.status, 201, answer.text);
  return answer.body.accessToken;
}

async function newWorkspace(by = world.team.token): Promise<string> {
  return (await world.call('post', '/api/v1/workspace', { name: 'w' }, { token: by })).body.workspace.id;
}
