import { randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { setTeam } from '../../../../shared/stores/postgres.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/jwt';
type Team = { id: string; token: string };
let world: World;
const test = suite('retiring signing keys');
test.before(async () => {
  world = await makeWorld();
});
test.after(() => world?.stop());

test('with retireNow the earlier keys leave the key sets at once, and what they signed is INVALID at once', async () => {
  const team = await world.newTeam();
  const oldest = await sign(team, 31_536_000);
  await rotate(team);
  const old = await sign(team);
  const before = await kids(team);
  const { kid } = (await rotate(team, { retireNow: true })).body;
  for (const jwt of [oldest, old])
    assert.equal((await verify(team, jwt)).body, { status: 'INVALID', reason: 'KEY_RETIRED' });
  const after = await kids(team);
  assert.is(after[0], kid);
  assert.equal(
    after.filter((one) => before.includes(one)),
    [],
    'the key that was published as the next one may be stolen too',
  );
  await eventually('they leave the shared set', async () => {
    const shared = await kids(team, '/.well-known/jwks.json');
    return shared.includes(kid) && !before.some((one) => shared.includes(one));
  });
  const jwt = await sign(team);
  assert.is(decodeProtectedHeader(jwt).kid, kid);
  assert.is((await verify(team, jwt)).body.status, 'VALID');
  const left = await world.sql`
    select kid from signing_keys where team_id = ${team.id} and private_encrypted is not null`;
  assert.equal(left.map((row) => row.kid as string).toSorted(), after.toSorted());
});

test('the audit log names each key that retireNow ended', async () => {
  const team = await world.newTeam();
  const kid = decodeProtectedHeader(await sign(team)).kid!;
  await rotate(team, { retireNow: true });
  const { auditLog } = (
    await world.call('get', `/api/v1/audit-log?resource=signing_key&resourceId=${kid}`, undefined, team)
  ).body;
  assert.equal(
    auditLog.map((line: object) => ({ ...line, id: 0, createdAt: 0, requestId: 0, tokenId: 0, userAgent: 0 })).at(-1),
    {
      id: 0,
      createdAt: 0,
      requestId: 0,
      tokenId: 0,
      userAgent: 0,
      outcome: 'changed',
      actor: 'access_token',
      address: '127.0.0.1',
      operation: 'POST /api/v1/jwt/rotate',
      resource: 'signing_key',
      resourceId: kid,
      before: { kid },
    },
  );
});

test('with retireNow a list of revoked JWTs that was full has room again, and what stood there stays INVALID', async () => {
  const team = await world.newTeam();
  const jwt = await sign(team);
  const revoke = (body: object) => world.call('post', `${PATH}/revoke`, body, team);
  await must(200, revoke({ jti: decodeJwt(jwt).jti }));
  await world.sql`
    insert into revoked_jwts (team_id, jti, expires_at)
    select ${team.id}, gen_random_uuid(), now() + interval '1 year' from generate_series(2, 10000)`;
  const other = randomUUID();
  assert.is((await revoke({ jti: other })).body.error.code, 40922);
  await rotate(team, { retireNow: true });
  await must(200, revoke({ jti: other }));
  assert.is((await verify(team, jwt)).body.status, 'INVALID');
});

test('a JWT that is signed while its key is being retired is either of the new key or INVALID', async () => {
  const team = await world.newTeam();
  await sign(team);
  for (let round = 0; round < 5; round++) {
    const signing = Array.from({ length: 6 }, (_, i) => sign(team, 60 + round * 10 + i));
    const [{ body }, ...jwts] = await Promise.all([rotate(team, { retireNow: true }), ...signing]);
    for (const jwt of jwts) {
      const { status } = (await verify(team, jwt)).body;
      assert.is(status, decodeProtectedHeader(jwt).kid === body.kid ? 'VALID' : 'INVALID');
    }
  }
});

test('a key whose JWTs have all expired makes no JWT valid any more, whatever a thief signs with it', async () => {
  const team = await world.newTeam();
  const jwt = await sign(team, 60);
  await rotate(team);
  await world.sql`
    update signing_keys set retired_at = now() - interval '1 hour' where kid = ${decodeProtectedHeader(jwt).kid!}`;
  assert.equal((await verify(team, jwt)).body, { status: 'INVALID', reason: 'KEY_RETIRED' });
});

test('a rotation that retires nothing takes false, and nothing else', async () => {
  const team = await world.newTeam();
  const jwt = await sign(team);
  assert.is((await rotate(team, { retireNow: false })).status, 200);
  assert.is((await verify(team, jwt)).body.status, 'VALID');
  for (const body of [{ retireNow: 'yes' }, { retireNow: null }, { retire: true }])
    assert.is((await world.call('post', `${PATH}/rotate`, body, team)).body.error.code, 40001);
});

test("all keys of a team are retired at once by the operator's function, and the next JWT makes a new one", async () => {
  const { retireAll } = await import('../../resources/jwts/signing-keys.ts');
  const team = await world.newTeam();
  const jwt = await sign(team);
  const before = await kids(team);
  const retired = await world.sql.begin(async (tx) => {
    await setTeam(tx, team.id);
    return retireAll(tx, team.id);
  });
  assert.equal(retired.toSorted(), before.toSorted());
  assert.equal(await kids(team), []);
  assert.is((await verify(team, jwt)).body.status, 'INVALID');
  assert.equal(await world.sql.begin((tx) => retireAll(tx, team.id)), [], 'done twice, it finds nothing');
  assert.is((await verify(team, await sign(team))).body.status, 'VALID');
});

test.run();

async function sign({ token }: Team, exp = 3600): Promise<string> {
  return (await must(201, world.call('post', PATH, { payload: {}, exp }, { token }))).body.jwt;
}

function rotate({ token }: Team, body?: object) {
  return must(200, world.call('post', `${PATH}/rotate`, body, { token }));
}

function verify({ token }: Team, jwt: string) {
  return world.call('post', `${PATH}/verify`, { jwt }, { token });
}

async function kids({ id }: Team, path = `/team/${id}/.well-known/jwks.json`): Promise<string[]> {
  const { keys } = (await must(200, world.call('get', path, undefined, { token: null }))).body;
  return keys.map((key: { kid: string }) => key.kid);
}
