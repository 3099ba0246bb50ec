import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeJwt } from 'jose';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';
import { MAX_REVOCATIONS } from '../../resources/jwts/revoked-jwts.ts';

const PATH = '/api/v1/jwt';
type Team = { id: string; token: string };
let world: World;
const test = suite('revoking JWTs');
test.before(async () => {
  world = await makeWorld();
});
test.after(() => world?.stop());

test('a revoked JWT is INVALID at once, and revoking it again answers the same', async () => {
  const team = await world.newTeam();
  const [jwt, other] = [await sign(team), await sign(team)];
  const { jti } = decodeJwt(jwt);
  const first = await must(200, revoke(team, { jti }));
  assert.equal(Object.keys(first.body), ['jti', 'expiresAt']);
  assert.is(first.body.jti, jti);
  assert.equal((await must(200, revoke(team, { jti }))).body, first.body);
  assert.equal((await verify(team, jwt)).body, { status: 'INVALID', reason: 'REVOKED' });
  assert.is((await verify(team, other)).body.status, 'VALID');
  const { auditLog } = (await world.call('get', `/api/v1/audit-log?resource=jwt`, undefined, team)).body;
  assert.equal(
    auditLog.map((line: { resourceId: string }) => line.resourceId),
    [jti],
  );
});

test('a jti of nobody is taken and kept as long as a JWT of the team can live; the JWT itself ends its revocation', async () => {
  const team = await world.newTeam();
  await must(200, revoke(team, { jti: randomUUID() }));
  const long = await sign(team, 7200);
  const jwt = await sign(team, 60);
  const unknown = (await must(200, revoke(team, { jti: randomUUID() }))).body.expiresAt;
  const longest = (decodeJwt(long).exp! + 300) * 1000;
  assert.ok(unknown >= longest && unknown <= Date.now() + 7_500_000, `${unknown}, ${longest}`);
  const exact = (await must(200, revoke(team, { jwt }))).body;
  assert.equal(exact, { jti: decodeJwt(jwt).jti, expiresAt: decodeJwt(jwt).exp! * 1000 });
  assert.equal((await must(200, revoke(team, { jwt }))).body, exact, 'again');
  assert.is((await verify(team, jwt)).body.status, 'INVALID');
});

test('an expired JWT stays EXPIRED, and revoking it stores nothing', async () => {
  const team = await world.newTeam();
  const jwt = await sign(team, 1);
  await sleep(decodeJwt(jwt).exp! * 1000 - Date.now() + 20);
  await must(200, revoke(team, { jwt }));
  assert.is((await world.sql`select from revoked_jwts where team_id = ${team.id}`).length, 0);
  await must(200, revoke(team, { jti: decodeJwt(jwt).jti }));
  assert.is((await verify(team, jwt)).body.status, 'EXPIRED');
});

test("another team's revocation of the same jti changes nothing, and its JWT is refused", async () => {
  const [ours, theirs] = [await world.newTeam(), await world.newTeam()];
  const jwt = await sign(ours);
  await must(200, revoke(theirs, { jti: decodeJwt(jwt).jti }));
  assert.is((await revoke(theirs, { jwt })).body.error.code, 40017);
  assert.is((await verify(ours, jwt)).body.status, 'VALID');
});

test('revoking needs jwt:revoke; a token limited to workspaces revokes JWTs of its own workspaces, and no others', async () => {
  const { team } = world;
  const [ours, other] = [await world.newWorkspace(team.id), await world.newWorkspace(team.id)];
  const limited = { id: team.id, token: await world.newToken(team.id, ['jwt:revoke', 'jwt:sign'], [ours]) };
  const wide = await sign(team);
  for (const body of [{ jti: decodeJwt(wide).jti }, { jwt: wide }, { jwt: await sign(team, 60, [other]) }])
    assert.is((await revoke(limited, body)).body.error?.code, 40302);
  assert.is((await verify(team, wide)).body.status, 'VALID');
  const own = await sign(limited);
  await must(200, revoke(limited, { jwt: own }));
  assert.is((await verify(team, own)).body.reason, 'REVOKED');
  const signer = { id: team.id, token: await world.newToken(team.id, ['jwt:sign', 'jwt:verify']) };
  assert.is((await revoke(signer, { jti: randomUUID() })).body.error.code, 40301);
});

test('bad input is a 400', async () => {
  const jti = randomUUID();
  for (const body of [
    {},
    { jti: 'x' },
    { jti: jti.toUpperCase() },
    { jti: 5 },
    { jti, jwt: 'x' },
    { jwt: 5 },
    { jti, exp: 1 },
  ])
    assert.is((await revoke(world.team, body)).body.error.code, 40001, JSON.stringify(body));
  for (const jwt of ['', 'x.y.z', 'x'.repeat(10_000)])
    assert.is((await revoke(world.team, { jwt })).body.error.code, 40017);
});

test('the revocations of a team are bounded, those of JWTs that have expired not counted', async () => {
  const team = await world.newTeam();
  await world.sql`
    insert into revoked_jwts (team_id, jti, expires_at)
    select ${team.id}, gen_random_uuid(), now() + (case when i > 1 then '1 hour' else '-1 hour' end)::interval
    from generate_series(1, ${MAX_REVOCATIONS}) i`;
  const jti = randomUUID();
  const answers = await Promise.all([
    revoke(team, { jti }),
    revoke(team, { jti: randomUUID() }),
    revoke(team, { jti: randomUUID() }),
  ]);
  assert.equal(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 409, 409],
  );
  const refused = answers.find(({ status }) => status === 409)!;
  assert.is(refused.body.error.code, 40922);
  const [known] = await world.sql<[{ jti: string }]>`
    select jti from revoked_jwts where team_id = ${team.id} and expires_at > now() limit 1`;
  await must(200, revoke(team, { jti: known.jti }));
});

test.run();

async function sign({ token }: Team, exp = 3600, workspaceIds?: string[]): Promise<string> {
  return (await must(201, world.call('post', PATH, { payload: {}, exp, workspaceIds }, { token }))).body.jwt;
}

function revoke({ token }: Team, body: object) {
  return world.call('post', `${PATH}/revoke`, body, { token });
}

function verify({ token }: Team, jwt: string) {
  return world.call('post', `${PATH}/verify`, { jwt }, { token });
}
