import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, makeKeyText } from '../../../../shared/values/key-text.ts';
import { makeBackground, lookedUp } from '../../tests/helpers/background.ts';
import { callsOf, joinWorld, must, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/access-token';
const world = await joinWorld();
const background = makeBackground(world);

test('a token that was just revoked writes nothing, and gets no kept answer again', async () => {
  const leaked = await mint(world.team.token);
  const headers = { 'Idempotency-Key': 'before' };
  await must(201, mintWith(leaked.token, { headers }));
  await revoke(leaked.id, world.team.token);
  // The api still has it in its memory of callers.
  const signing = world.call('post', '/api/v1/jwt', { payload: {} }, leaked);
  for (const writing of [mintWith(leaked.token), mintWith(leaked.token, { headers }), signing])
    await refused(40102, writing);
});

test('revoking a token revokes all that it made, and all that these made, on every server', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const root = await mint(admin);
  const child = await mint(root.token);
  const grandchild = await mint(child.token);
  const sibling = await mint(admin);
  const { descendants } = await revoke(root.id, admin);
  assert.equal(descendants, { revoked: 2, pending: false });
  for (const one of [root, child, grandchild]) assert.equal(await statusesOf(one), [401, 401]);
  assert.equal(await statusesOf(sibling), [200, 200]);
  const rows = await world.sql`
    select t.id, l.operation from access_tokens t
    left join audit_log l on l.resource_id = t.id and l.operation like 'DELETE %'
    where t.team_id = ${teamId} and t.revoked_at is not null order by t.id`;
  const operation = 'DELETE /api/v1/access-token/{id}';
  const all = [root, child, grandchild].map(({ id }) => ({ id, operation }));
  assert.equal([...rows], all);
});

test('a token revokes no token above it, though itself, its siblings and those below it', async () => {
  const { token: admin } = await world.newTeam();
  const root = await mint(admin);
  const [child, sibling] = [await mint(root.token), await mint(root.token)];
  const grandchild = await mint(child.token);
  const alone = ({ id }: Minted) => `${PATH}/${id}?descendants=false`;
  for (const by of [child, grandchild]) await refused(40304, callsOf(world, by.token).ask('delete', alone(root)));
  await refused(40304, callsOf(world, grandchild.token).ask('delete', alone(child)));
  for (const one of [root, child, grandchild]) assert.equal(await statusesOf(one), [200, 200]);
  for (const one of [grandchild, sibling, child]) await callsOf(world, child.token).remove(alone(one));
});

test('descendants=false keeps what a token made, until a later call revokes that too', async () => {
  const { token: admin } = await world.newTeam();
  const root = await mint(admin);
  const child = await mint(root.token);
  // A token may revoke itself.
  const first = await revoke(root.id, root.token, '?descendants=false');
  assert.equal(first.descendants, { revoked: 0, pending: false });
  const grandchild = await mint(child.token);
  assert.equal((await revoke(root.id, admin)).descendants, { revoked: 2, pending: false });
  for (const one of [child, grandchild]) assert.equal(await statusesOf(one), [401, 401]);
});

test('a token that never stops writing cannot hold up its revocation, and what it made meanwhile is revoked with it', async () => {
  const { token: admin } = await world.newTeam();
  const leaked = await mint(admin);
  const writing = Promise.withResolvers<void>();
  let written = 0;
  const writers = Array.from({ length: 10 }, async () => {
    for (;;) {
      const { status } = await mintWith(leaked.token);
      if (status === 401) return;
      assert.is(status, 201);
      if (++written === 20) writing.resolve();
    }
  });
  await writing.promise;
  await revoke(leaked.id, admin);
  await Promise.all(writers);
  const made = await world.sql`select revoked_at from access_tokens where created_by = ${leaked.id}`;
  assert.equal([made.length, made.filter((one) => one.revokedAt === null).length], [written, 0]);
});

test('hundreds of descendants, in a long line and beside each other, are revoked with it on every server, each once', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const root = await mint(admin);
  const beside = await storeMade(teamId, root.id, 300, false);
  const last = await storeMade(teamId, root.id, 400, true);
  for (const one of [beside, last]) assert.equal(await statusesOf(one), [200, 200]);
  assert.equal((await revoke(root.id, admin)).descendants, { revoked: 700, pending: false });
  for (const one of [beside, last]) assert.equal(await statusesOf(one), [401, 401]);
  assert.equal((await revoke(root.id, admin)).descendants, { revoked: 0, pending: false });
  const [lines] = await world.sql<[{ n: number }]>`
    select count(*)::int as n from audit_log where team_id = ${teamId} and operation = 'DELETE /api/v1/access-token/{id}'`;
  assert.is(lines.n, 701);
});

type Minted = { id: string; token: string };

function mintWith(token: string, options: { headers?: Record<string, string> } = {}) {
  return world.call('post', PATH, { name: 'test', permissions: [...permissions] }, { token, ...options });
}

const mint = async (by: string): Promise<Minted> => (await must(201, mintWith(by))).body.accessToken;

async function revoke(id: string, by: string, query = '') {
  return (await must(200, world.call('delete', `${PATH}/${id}${query}`, undefined, { token: by }))).body;
}

async function statusesOf({ token }: { token: string }): Promise<number[]> {
  const options = { token: null, headers: lookedUp(token) };
  const url = `${world.verify.url}/api/v1/api-key/verify`;
  const reading = await world.call('get', PATH, undefined, options);
  return [reading.status, (await world.call('post', url, { key: 'none' }, options)).status];
}

/** Stores tokens that a root made, or in a line each the next one. Gives the last one, which alone comes into force. */
async function storeMade(teamId: string, root: string, count: number, inLine: boolean): Promise<Minted> {
  const tokens = Array.from({ length: count }, () => ({ id: newId('tok'), token: makeKeyText('kt', 7) }));
  const alike = { teamId, name: 'stored', maskedToken: '', permissions: [...permissions], shard: 7 };
  const rows = tokens.map(({ id, token }, i) => {
    return { ...alike, id, hash: hashKeyText(token), createdBy: (inLine && tokens[i - 1]?.id) || root };
  });
  await world.sql`insert into access_tokens ${world.sql(rows)}`;
  await background.apply('token', tokens.at(-1)!.id);
  return tokens.at(-1)!;
}
