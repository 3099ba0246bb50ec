import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, keyShard, makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld, type World } from '../../../../tests/helpers/world.ts';
import { goOnRevoking } from '../../resources/revocations/job.ts';
import { connectBackground, lookedUp, type Background } from '../../tests/helpers/background.ts';

const PATH = '/api/v1/access-token';
let world: World;
let background: Background;
const test = suite('revoking access tokens');
test.before(async () => {
  world = await joinWorld();
  background = await connectBackground(world);
});
test.after(async () => {
  await background?.stop();
  await world?.stop();
});

test('a token that was just revoked writes nothing, and gets no kept answer again', async () => {
  const leaked = await mint(world.team.token);
  const headers = { 'Idempotency-Key': 'before' };
  const body = { name: 'child', permissions: [...permissions] };
  await must(201, world.call('post', PATH, body, { token: leaked.token, headers }));
  await revoke(leaked.id, world.team.token);
  // The api still has it in its memory of callers.
  for (const writing of [
    world.call('post', PATH, body, { token: leaked.token }),
    world.call('post', PATH, body, { token: leaked.token, headers }),
    world.call('post', '/api/v1/workspace', { name: 'w' }, { token: leaked.token }),
    world.call('post', '/api/v1/jwt', { payload: {} }, { token: leaked.token }),
  ])
    assert.is((await writing).body.error?.code, 40102);
});

test('revoking a token revokes all that it made, and all that these made, on every server', async () => {
  const { token: admin } = await world.newTeam();
  const root = await mint(admin);
  const child = await mint(root.token);
  const grandchild = await mint(child.token);
  const sibling = await mint(admin);
  const { descendants } = await revoke(root.id, admin);
  assert.equal(descendants, { revoked: 2, pending: false });
  for (const one of [root, child, grandchild]) assert.equal(await statusesOf(one), [401, 401]);
  assert.equal(await statusesOf(sibling), [200, 200]);
  const listed = (await must(200, world.call('get', PATH, undefined, { token: admin }))).body.accessTokens;
  const revoked = listed.filter((one: { revoked: boolean }) => one.revoked).map((one: { id: string }) => one.id);
  assert.equal(revoked, [root.id, child.id, grandchild.id]);
  const { auditLog } = (
    await must(200, world.call('get', `/api/v1/audit-log?resourceId=${grandchild.id}`, undefined, { token: admin }))
  ).body;
  assert.equal(auditLog.map((line: { operation: string }) => line.operation).toSorted(), [
    'DELETE /api/v1/access-token/{id}',
    'POST /api/v1/access-token',
  ]);
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

test('a token says which token made it, and the token of an operator that none did', async () => {
  const { token: admin } = await world.newTeam();
  const listed = async () => (await must(200, world.call('get', PATH, undefined, { token: admin }))).body.accessTokens;
  const [operator] = await listed();
  assert.not.ok('createdBy' in operator);
  const made = await mint(admin);
  assert.is(made.createdBy, operator.id);
  assert.is((await listed())[1].createdBy, operator.id);
  const got = (await must(200, world.call('get', `${PATH}/${made.id}`, undefined, { token: admin }))).body.accessToken;
  assert.equal(got, (await listed())[1]);
});

test('tokens that revoke themselves and each other at once get an answer each, and none waits for a deadlock', async () => {
  const { token: admin } = await world.newTeam();
  for (let round = 0; round < 2; round++) {
    const [a, b] = [await mint(admin), await mint(admin)];
    const calls = [
      [a, a],
      [a, a],
      [a, b],
      [b, a],
      [b, b],
    ] as const;
    const answers = await Promise.all(
      calls.map(([by, of]) => world.call('delete', `${PATH}/${of.id}`, undefined, { token: by.token })),
    );
    assert.ok(
      answers.every(({ status }) => status === 200 || status === 401),
      answers.map(({ text }) => text).join(),
    );
    const [row] = await world.sql<[{ revoked: number }]>`
      select count(*)::int as revoked from access_tokens where id in (${a.id}, ${b.id}) and revoked_at is not null`;
    assert.ok(row.revoked >= 1);
  }
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
  const left = () => world.sql`select from access_tokens where created_by = ${leaked.id} and revoked_at is null`;
  assert.is((await left()).length, 0);
  await Promise.all(writers);
  const made = await world.sql`select from access_tokens where created_by = ${leaked.id}`;
  assert.equal([made.length, (await left()).length], [written, 0]);
});

test('a revocation that fails holds up no other', async () => {
  const [bad, good] = [await world.newTeam(), await world.newTeam()];
  const [root, other] = [await mint(bad.token), await mint(good.token)];
  const child = await mint(root.token);
  await world.sql.unsafe(`
    create function refuse_update() returns trigger language plpgsql as $$ begin raise exception 'refused by a test'; end $$;
    create trigger refused before update on access_tokens for each row when (old.id = '${child.id}') execute function refuse_update();
    with r as (insert into revocations (team_id, token_id, operation, worked_at)
               values ('${bad.id}', '${root.id}', 'test', now() - interval '1 day') returning id)
    update access_tokens set revoked_at = now(), revoked_with_descendants = true, revocation_id = (select id from r)
    where id = '${root.id}'`);
  await storeDescendants(good.id, other.id, 700);
  await revoke(other.id, good.token);
  const isLeft = async (id: string) => (await world.sql`select from revocations where token_id = ${id}`).length > 0;
  const goOn = () => goOnRevoking(world.sql, background.redis);
  while (await isLeft(other.id)) await goOn().catch((error: Error) => assert.match(error.message, 'refused by a test'));
  assert.ok(await isLeft(root.id));
  await world.sql`drop function refuse_update cascade`;
  while (await isLeft(root.id)) await goOn();
});

test('of hundreds of descendants the last are refused by the api at once, and by all servers when their page has come', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const root = await mint(admin);
  const last = await storeDescendants(teamId, root.id, 700);
  assert.equal(await statusesOf(last), [200, 200]);
  const { descendants } = await revoke(root.id, admin);
  assert.equal(descendants, { revoked: 500, pending: true });
  assert.is((await mintWith(last.token)).body.error.code, 40102);
  while (await goOnRevoking(world.sql, background.redis));
  const ofTeam = world.sql`select id from access_tokens where team_id = ${teamId}`;
  // The api's own job may have revoked a page, and be about to bring it into force.
  await world.sql`update changes set created_at = now() - interval '1 hour' where applied_at is null and entity_id in (${ofTeam})`;
  await background.sweep();
  assert.equal(await statusesOf(last), [401, 401]);
  assert.equal((await revoke(root.id, admin)).descendants, { revoked: 0, pending: false });
  const [lines] = await world.sql<[{ n: number }]>`
    select count(*)::int as n from audit_log where team_id = ${teamId} and operation = 'DELETE /api/v1/access-token/{id}'`;
  assert.is(lines.n, 701);
});

test.run();

type Minted = { id: string; token: string; createdBy?: string };

function mintWith(by: string, more: object = {}) {
  return world.call('post', PATH, { name: 'test', permissions: [...permissions], ...more }, { token: by });
}

async function mint(by: string, more: object = {}): Promise<Minted> {
  return (await must(201, mintWith(by, more))).body.accessToken;
}

async function revoke(id: string, by: string, query = '') {
  return (await must(200, world.call('delete', `${PATH}/${id}${query}`, undefined, { token: by }))).body;
}

/** The status that a token gets from the api and from verify. */
async function statusesOf({ token }: { token: string }): Promise<number[]> {
  const options = { token: null, headers: lookedUp(token) };
  const url = `${world.verify!.url}/api/v1/api-key/verify`;
  const reading = await world.call('get', PATH, undefined, options);
  return [reading.status, (await world.call('post', url, { key: 'none' }, options)).status];
}

/** Stores tokens that a token made; gives the last one, which alone comes into force. */
async function storeDescendants(teamId: string, root: string, count: number): Promise<{ id: string; token: string }> {
  const tokens = Array.from({ length: count }, () => ({ id: newId('tok'), text: makeKeyText('kt', 7) }));
  await world.sql`
    insert into access_tokens ${world.sql(
      tokens.map(({ id, text }) => ({
        id,
        teamId,
        name: 'stored',
        hash: hashKeyText(text),
        maskedToken: maskKeyText(text),
        shard: keyShard(text)!,
        permissions: [...permissions],
        createdBy: root,
      })),
    )}`;
  const { id, text } = tokens.at(-1)!;
  await background.apply('token', id);
  return { id, token: text };
}
