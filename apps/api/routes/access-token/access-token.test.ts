import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import { hashKeyText, keyShard } from '../../../../shared/values/key-text.ts';
import { loadShard } from '../../sync/sync.ts';
import { makeBackground, lookedUp } from '../../tests/helpers/background.ts';
import { callsOf, column, joinWorld, must, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/access-token';
const world = await joinWorld();
const { ask } = callsOf(world);
const background = makeBackground(world);
const env = { TRUSTED_PROXIES: '127.0.0.1,::1' };
const [api, verify] = [(await world.start('api', env)).url, (await world.start('verify', env)).url];

test('a token is created, listed, used and revoked, and says which token made it', async () => {
  const team = await world.newTeam();
  const admin = callsOf(world, team.token);
  const workspaceId = await world.newWorkspace(team.id);
  const permissions = ['workspace:read', 'key:verify'] as const;
  const body = { name: 'gateway', permissions, workspaceIds: [workspaceId], expiresAt: Date.now() + 60_000 };
  const { token, ...described } = await admin.make(PATH, body);
  assert.match(described.id, /^tok_[0-9a-z]{26}$/);
  assert.match(token, /^kt_[0-9]{2}[0-9A-Za-z]{32}$/);
  const [operator, ...others] = await admin.read(PATH);
  assert.not.ok('createdBy' in operator, 'an operator made it, and no token');
  const { id, createdAt } = described;
  const maskedToken = `${token.slice(0, 7)}****${token.slice(-4)}`;
  assert.equal(described, { id, ...body, maskedToken, createdBy: operator.id, revoked: false, createdAt });
  assert.equal(others, [described], 'a list holds no token');
  await callsOf(world, token).read(`/api/v1/workspace/${workspaceId}`);

  const revoked = await admin.remove(`${PATH}/${id}`);
  assert.equal(revoked, { ...described, revoked: true, revokedAt: revoked.revokedAt });
  assert.equal(await admin.remove(`${PATH}/${id}`), revoked, 'again');
  assert.equal((await admin.read(PATH))[1], revoked, 'a revoked token stays listed');
  assert.equal(await admin.read(`${PATH}/${id}`), revoked);
});

test('an expired token leaves Redis a day later, gets the same answer before and after, and no rebuild brings it back', async () => {
  const { id, token } = await newToken({ permissions: ['key:verify'], expiresAt: Date.now() + 60_000 });
  const verify = () =>
    world.call('post', '/api/v1/api-key/verify', { key: 'none' }, { token: null, headers: lookedUp(token) });
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
  await must(200, verify());
  // Two days ago its lifetime in Redis counts from when it is applied.
  await world.sql`update access_tokens set expires_at = ${Date.now() - 2 * 86_400_000} where id = ${id}`;
  await background.apply('token', id);
  await refused(40102, verify());
  await ttl(86_340);
  assert.not.ok(await isLoaded());
  await client.del(name);
  await refused(40102, verify());
});

test('a token grants only what it holds: permissions, workspaces and time', async () => {
  const [ours, other] = [await world.newWorkspace(world.team.id), await world.newWorkspace(world.team.id)];
  const expiresAt = Date.now() + 60_000;
  const inSome = (...workspaceIds: string[]) => ({ workspaceIds });
  for (const [parent, granted, beyond] of [
    [{}, [{}], [{ permissions: ['key:read', 'key:write'] }]],
    [inSome(ours), [inSome(ours)], [{}, inSome(other), inSome(ours, other)]],
    [{ expiresAt }, [{ expiresAt }], [{}, { expiresAt: expiresAt + 1 }]],
  ] as const) {
    const { token } = await newToken({ permissions: ['token:write', 'key:read'], ...parent });
    const child = { name: 'child', permissions: ['key:read'] };
    const by = callsOf(world, token);
    for (const more of granted) await by.make(PATH, { ...child, ...more });
    for (const more of beyond) await refused(40303, by.ask('post', PATH, { ...child, ...more }), JSON.stringify(more));
  }
});

test('a token limited to workspaces sees and revokes only tokens limited to them too', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const [ours, other] = [await world.newWorkspace(teamId), await world.newWorkspace(teamId)];
  const permissions = ['token:write'];
  const limited = await newToken({ permissions, workspaceIds: [ours] }, admin);
  const sibling = await newToken({ permissions, workspaceIds: [ours] }, admin);
  const wider = await newToken({ permissions, workspaceIds: [ours, other] }, admin);
  const by = callsOf(world, limited.token);
  assert.equal(column(await by.read(PATH), 'id'), [limited.id, sibling.id]);
  await refused(40405, by.ask('delete', `${PATH}/${wider.id}`));
  await by.remove(`${PATH}/${sibling.id}`);
});

test('an unknown workspace and an end in the past are refused by name, and an end in seconds with a hint', async () => {
  for (const [more, code, field] of [
    [{ workspaceIds: ['ws_01h455vb4pex5vsknk084sn02q'] }, 40302, '/workspaceIds/0'],
    [{ workspaceIds: [await world.newWorkspace(world.team.id), 'a\u0000'] }, 40302, '/workspaceIds/1'],
    [{ expiresAt: Date.now() - 1 }, 40004, '/expiresAt'],
    [{ expiresAt: Math.floor(Date.now() / 1000) + 3600 }, 40004, '/expiresAt'],
  ] as const) {
    const { details } = await refused(code, ask('post', PATH, { name: 'n', permissions: ['key:read'], ...more }));
    assert.is(details[0].path, field);
  }
});

test('a token with a list works from its addresses alone, on api and verify, whoever asked before', async () => {
  const { token } = await newToken({ allowedIPs: ['203.0.113.0/24', '2001:db8::/32'] });
  const uses = {
    'api, from Postgres': (from: string) => callFrom('get', PATH, undefined, token, from),
    'api, writing': (from: string) => callFrom('post', '/api/v1/workspace', { name: 'w' }, token, from),
    'api, from Redis': (from: string) => callFrom('post', '/api/v1/api-key/verify', { key: 'none' }, token, from),
    verify: (from: string) => callFrom('post', `${verify}/api/v1/api-key/verify`, { key: 'none' }, token, from),
  };
  for (const [name, use] of Object.entries(uses)) {
    for (const from of ['203.0.113.9', '2001:db8::7', '::ffff:203.0.113.1']) {
      const { status, text } = await use(from);
      assert.ok(status < 300, `${name} from ${from}: ${text}`);
      await refused(40306, use('198.51.100.1'), name);
    }
    // A header that says nothing readable proves no address.
    await refused(40306, use('unknown'), name);
  }
});

test("a gateway's token is held by the gateway: its own address counts, not that of its client", async () => {
  const gateway = (token: string) =>
    world.call('get', `${verify}/gateway/plain/usage=0/`, undefined, {
      token: null,
      headers: { 'X-Keytally-Token': token, 'X-Api-Key': 'none', 'X-Forwarded-For': '203.0.113.9' },
    });
  const here = (await newToken({ allowedIPs: ['127.0.0.1'] })).token;
  assert.is((await gateway(here)).status, 401, 'the key is unknown, the token is not');
  const elsewhere = (await newToken({ allowedIPs: ['203.0.113.9'] })).token;
  assert.is((await gateway(elsewhere)).status, 500);
});

test('a token gives its addresses on, or some of them, and never more', async () => {
  const parent = await newToken({ allowedIPs: ['203.0.113.0/24', '2001:db8::/32'] });
  const from = '203.0.113.9';
  const make = (more: object) =>
    callFrom('post', PATH, { name: 'child', permissions: ['key:read'], ...more }, parent.token, from);
  assert.equal((await make({})).body.accessToken.allowedIPs, ['203.0.113.0/24', '2001:db8::/32'], 'inherited');
  assert.equal((await make({ allowedIPs: ['203.0.113.128/25'] })).body.accessToken.allowedIPs, ['203.0.113.128/25']);
  for (const allowedIPs of [[], ['203.0.112.0/23'], ['203.0.113.1', '198.51.100.1'], ['0.0.0.0/0'], ['::/0']])
    await refused(40303, make({ allowedIPs }), allowedIPs.join());
  assert.not.ok('allowedIPs' in (await newToken({ allowedIPs: [] })), 'an unlimited token may make an unlimited one');
});

/** A token with all permissions, unless it is given some. */
function newToken(body: object, by?: string): Promise<{ id: string; token: string }> {
  return callsOf(world, by).make(PATH, { name: 'test', permissions: [...permissions], ...body });
}

/** Calls as from an address: tests come from a trusted proxy, whose X-Forwarded-For says from where. */
function callFrom(method: string, path: string, body: unknown, token: string, from: string) {
  const url = path.startsWith('http') ? path : api + path;
  return world.call(method, url, body, { token, headers: { 'X-Forwarded-For': from } });
}
