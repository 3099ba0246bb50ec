import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, keyShard, makeKeyText, maskKeyText } from '../../../../shared/values/key-text.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { eventually, spawnWorld, PATIENT, type ProcessWorld } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/access-token';
let world: ProcessWorld;
const test = suite('revoking access tokens');
test.before(async () => void (world = await spawnWorld(['verify'], PATIENT)));
test.after(() => world?.stop());

test('a token that was just revoked writes nothing, and gets no kept answer again', async () => {
  const { token: admin } = await world.newTeam();
  const leaked = await mint(admin);
  const headers = { 'Idempotency-Key': 'before' };
  const body = { name: 'child', permissions: [...permissions] };
  await must(201, world.call('post', PATH, body, { token: leaked.token, headers }));
  await revoke(leaked.id, admin);
  // The api still has it in its cache of callers.
  const after = [
    await world.call('post', PATH, body, { token: leaked.token }),
    await world.call('post', PATH, body, { token: leaked.token, headers }),
    await world.call('post', '/api/v1/workspace', { name: 'w' }, { token: leaked.token }),
    await world.call('post', '/api/v1/jwt', { payload: {} }, { token: leaked.token }),
  ];
  assert.equal(
    after.map(({ body }) => body.error?.code),
    [40102, 40102, 40102, 40102],
  );
});

test('revoking a token revokes all that it made, and all that these made, on every server', async () => {
  const { token: admin } = await world.newTeam();
  const root = await mint(admin);
  const child = await mint(root.token);
  const grandchild = await mint(child.token);
  const sibling = await mint(admin);
  const { descendants } = await revoke(root.id, admin);
  assert.equal(descendants, { revoked: 2, pending: false });
  for (const { token } of [root, child, grandchild]) {
    await eventually('refused', async () => (await world.call('get', PATH, undefined, { token })).status === 401);
    await eventually('refused by verify', async () => (await verifyWith(token)) === 401);
  }
  await eventually('its sibling verifies', async () => (await verifyWith(sibling.token)) === 200);
  const listed = (await must(200, world.call('get', PATH, undefined, { token: admin }))).body.accessTokens;
  const revoked = listed.filter((one: { revoked: boolean }) => one.revoked).map((one: { id: string }) => one.id);
  assert.equal(revoked, [root.id, child.id, grandchild.id]);
  const lines = (
    await must(200, world.call('get', `/api/v1/audit-log?resourceId=${grandchild.id}`, undefined, { token: admin }))
  ).body;
  assert.equal(lines.auditLog.map((line: { operation: string }) => line.operation).toSorted(), [
    'DELETE /api/v1/access-token/{id}',
    'POST /api/v1/access-token',
  ]);
});

test('descendants=false keeps what a token made, until a later call revokes that too', async () => {
  const { token: admin } = await world.newTeam();
  const root = await mint(admin);
  const child = await mint(root.token);
  const first = await revoke(root.id, admin, '?descendants=false');
  assert.equal(first.descendants, { revoked: 0, pending: false });
  await must(200, world.call('get', PATH, undefined, { token: child.token }));
  const grandchild = await mint(child.token);
  assert.equal((await revoke(root.id, admin)).descendants, { revoked: 2, pending: false });
  assert.is((await mintWith(child.token)).body.error.code, 40102);
  await eventually(
    'refused',
    async () => (await world.call('get', PATH, undefined, { token: grandchild.token })).status === 401,
  );
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

test('a revocation waits for the writes under way: a token made in that moment is revoked with its parent', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const parent = await mint(admin);
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  // Whoever makes a token looks at the row of its team.
  const held = world.sql.begin(async (tx) => {
    await tx`select from teams where id = ${teamId} for update`;
    const making = mintWith(parent.token);
    await eventually('it is being made', () => waiting(1));
    const revoking = world.call('delete', `${PATH}/${parent.id}`, undefined, { token: admin });
    await eventually('the revocation waits too', () => waiting(2));
    await released;
    return { making, revoking };
  });
  release();
  const { making, revoking } = await held;
  const child = (await must(201, making)).body.accessToken;
  assert.equal((await must(200, revoking)).body.descendants, { revoked: 1, pending: false });
  const [row] = await world.sql`select revoked_at from access_tokens where id = ${child.id}`;
  assert.ok(row!.revokedAt);
});

test('tokens that revoke themselves and each other at once get an answer each, and none waits for a deadlock', async () => {
  const { token: admin } = await world.newTeam();
  for (let round = 0; round < 5; round++) {
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

test('a token that never stops writing cannot hold up its revocation', async () => {
  const { token: admin } = await world.newTeam();
  const leaked = await mint(admin);
  let refused = 0;
  const writers = Array.from({ length: 20 }, async () => {
    for (;;) {
      const { status } = await world.call('post', '/api/v1/workspace', { name: 'w' }, { token: leaked.token });
      if (status === 401) return void refused++;
    }
  });
  // Without the lines of its refused attempts.
  const written = async () => {
    const [row] = await world.sql<[{ n: number }]>`
      select count(*)::int as n from audit_log where token_id = ${leaked.id} and error_code is null`;
    return row.n;
  };
  await eventually('it writes', async () => (await written()) > 20);
  await revoke(leaked.id, admin);
  const before = await written();
  await Promise.all(writers);
  assert.equal([refused, await written()], [20, before]);
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
  await storeDescendants(good.id, other.id, 900);
  await revoke(other.id, good.token);
  const left = async (id: string) => (await world.sql`select from revocations where token_id = ${id}`).length;
  await eventually('the other one ends', async () => (await left(other.id)) === 0);
  assert.is(await left(root.id), 1);
  await world.sql`drop trigger refused on access_tokens`;
  await eventually('so does this one', async () => (await left(root.id)) === 0);
});

test('thousands of descendants are refused by the api at once, and by verify after a restart in the middle', async () => {
  const { token: admin, id: teamId } = await world.newTeam();
  const root = await mint(admin);
  const last = await storeDescendants(teamId, root.id, 1_500);
  await eventually('in force', async () => (await verifyWith(last)) === 200);
  const { descendants } = await revoke(root.id, admin);
  assert.ok(descendants.pending && descendants.revoked < 1_500, JSON.stringify(descendants));
  assert.is((await mintWith(last)).body.error.code, 40102);
  await world.api.stop('SIGKILL');
  const api = await world.start('api');
  await eventually('all are revoked', async () => {
    const [row] = await world.sql<[{ left: number }]>`
      select count(*)::int as left from access_tokens where created_by = ${root.id} and revoked_at is null`;
    return row.left === 0;
  });
  await eventually('verify refuses them', async () => (await verifyWith(last)) === 401);
  const revokeAgain = () => world.call('delete', `${api.url}${PATH}/${root.id}`, undefined, { token: admin });
  const { body } = await eventually('nothing is pending', async () => {
    const answer = await must(200, revokeAgain());
    return answer.body.descendants.pending ? undefined : answer;
  });
  assert.equal(body.descendants, { revoked: 0, pending: false });
  const [lines] = await world.sql<[{ n: number }]>`
    select count(*)::int as n from audit_log where team_id = ${teamId} and operation = 'DELETE /api/v1/access-token/{id}'`;
  assert.is(lines.n, 1_501);
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

async function verifyWith(token: string): Promise<number> {
  const url = `${world.verify!.url}/api/v1/api-key/verify`;
  return (await world.call('post', url, { key: 'none' }, { token })).status;
}

async function waiting(atLeast: number): Promise<boolean> {
  const [row] = await world.sql<[{ n: number }]>`
    select count(*)::int as n from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and application_name = 'keytally'`;
  return row.n >= atLeast;
}

/** Stores tokens that a token made; gives the secret of the last one, which alone comes into force. */
async function storeDescendants(teamId: string, root: string, count: number): Promise<string> {
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
  await world.sql`insert into changes (kind, entity_id, shard, created_at) values ('token', ${id}, 7, now() - interval '1 hour')`;
  return text;
}
