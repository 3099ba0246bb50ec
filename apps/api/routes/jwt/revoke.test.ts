import { randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { MAX_REVOCATIONS } from './jwts.ts';
import { claimsOf, makeJwts } from './helpers/jwts.ts';
import { codesOf, column, joinWorld, refused } from '../../tests/helpers/calls.ts';

const world = await joinWorld();
const jwts = makeJwts(world);

test('a revoked JWT is INVALID at once, and revoking it again answers the same', async () => {
  const team = await world.newTeam();
  const [jwt, other] = [await jwts.sign(team), await jwts.sign(team)];
  const { jti } = decodeJwt(jwt);
  const first = await jwts.revoke(team, { jti });
  assert.equal(first, { jti, expiresAt: first.expiresAt });
  assert.equal(await jwts.revoke(team, { jti }), first);
  assert.equal(await jwts.verify(team, jwt), { status: 'INVALID', reason: 'REVOKED' });
  assert.is((await jwts.verify(team, other)).status, 'VALID');
  const lines = await world.sql`select resource_id from audit_log where team_id = ${team.id} and resource = 'jwt'`;
  assert.equal(column(lines, 'resourceId'), [jti]);
});

test('a jti of nobody is taken and kept as long as a JWT of the team can live; the JWT itself ends its revocation', async () => {
  const team = await world.newTeam();
  await jwts.revoke(team, { jti: randomUUID() });
  const long = await jwts.sign(team, { exp: 7200 });
  const jwt = await jwts.sign(team, { exp: 60 });
  const { expiresAt } = await jwts.revoke(team, { jti: randomUUID() });
  const longest = (decodeJwt(long).exp! + 300) * 1000;
  assert.ok(expiresAt >= longest && expiresAt <= Date.now() + 7_500_000, `${expiresAt}, ${longest}`);
  const exact = { jti: decodeJwt(jwt).jti, expiresAt: decodeJwt(jwt).exp! * 1000 };
  for (let i = 0; i < 2; i++) assert.equal(await jwts.revoke(team, { jwt }), exact);
  assert.is((await jwts.verify(team, jwt)).status, 'INVALID');
});

test('an expired JWT stays EXPIRED, and revoking it stores nothing; once all JWTs of a key have expired it makes none valid, whatever a thief signs with it', async () => {
  const team = await world.newTeam();
  const jti = randomUUID();
  const expired = await jwts.signBy(team, claimsOf(team, -60, jti));
  await jwts.revoke(team, { jwt: expired });
  assert.is((await world.sql`select from revoked_jwts where team_id = ${team.id}`).length, 0);
  await jwts.revoke(team, { jti });
  assert.is((await jwts.verify(team, expired)).status, 'EXPIRED');
  const jwt = await jwts.sign(team, { exp: 60 });
  await jwts.rotate(team);
  await world.sql`
    update signing_keys set retired_at = now() - interval '1 hour' where kid = ${decodeProtectedHeader(jwt).kid!}`;
  assert.equal(await jwts.verify(team, jwt), { status: 'INVALID', reason: 'KEY_RETIRED' });
});

test("another team's revocation of the same jti changes nothing, and its JWT is refused", async () => {
  const [ours, theirs] = [await world.newTeam(), await world.newTeam()];
  const jwt = await jwts.sign(ours);
  await jwts.revoke(theirs, { jti: decodeJwt(jwt).jti });
  for (const wrong of [jwt, '', 'x.y.z']) await refused(40017, jwts.ask(theirs, '/revoke', { jwt: wrong }));
  for (const body of [{}, { jti: randomUUID(), jwt }]) await refused(40001, jwts.ask(theirs, '/revoke', body));
  assert.is((await jwts.verify(ours, jwt)).status, 'VALID');
});

test('a token limited to workspaces revokes JWTs of its own workspaces, and no others', async () => {
  const { team } = world;
  const [ours, other] = [await world.newWorkspace(team.id), await world.newWorkspace(team.id)];
  const limited = { ...team, token: await world.newToken(team.id, ['jwt:revoke', 'jwt:sign'], [ours]) };
  const wide = await jwts.sign(team);
  const wider = await jwts.sign(team, { workspaceIds: [ours, other] });
  for (const body of [{ jti: decodeJwt(wide).jti }, { jwt: wide }, { jwt: wider }])
    await refused(40302, jwts.ask(limited, '/revoke', body));
  assert.is((await jwts.verify(team, wide)).status, 'VALID');
  const own = await jwts.sign(limited);
  await jwts.revoke(limited, { jwt: own });
  assert.is((await jwts.verify(team, own)).reason, 'REVOKED');
});

test('the revocations of a team are bounded, those of expired JWTs not counted; retireNow makes room, and what stood there stays INVALID', async () => {
  const team = await world.newTeam();
  const jwt = await jwts.sign(team);
  await world.sql`
    insert into revoked_jwts (team_id, jti, expires_at)
    select ${team.id}, gen_random_uuid(), now() + (case when i > 1 then '1 hour' else '-1 hour' end)::interval
    from generate_series(1, ${MAX_REVOCATIONS}) i`;
  const bodies = [{ jwt }, { jwt: await jwts.sign(team) }, { jti: randomUUID() }];
  const answers = await Promise.all(bodies.map((body) => jwts.ask(team, '/revoke', body)));
  assert.equal(codesOf(answers), [200, 40922, 40922]);
  const [known] = await world.sql<[{ jti: string }]>`
    select jti from revoked_jwts where team_id = ${team.id} and expires_at > now() limit 1`;
  await jwts.revoke(team, { jti: known.jti });
  await jwts.rotate(team, { retireNow: true });
  await jwts.revoke(team, { jti: randomUUID() });
  assert.is((await jwts.verify(team, jwt)).status, 'INVALID');
});

test('with retireNow the earlier keys leave the key set at once, what they signed is INVALID at once, and the audit log names each', async () => {
  const team = await world.newTeam();
  const oldest = await jwts.sign(team, { exp: 31_536_000 });
  await jwts.rotate(team, { retireNow: false });
  const old = await jwts.sign(team);
  assert.is((await jwts.verify(team, oldest)).status, 'VALID', 'false retires nothing');
  const before = await jwts.kids(team);
  const kid = await jwts.rotate(team, { retireNow: true });
  for (const jwt of [oldest, old])
    assert.equal(await jwts.verify(team, jwt), { status: 'INVALID', reason: 'KEY_RETIRED' });
  const after = await jwts.kids(team);
  assert.is(after[0], kid);
  // The key that was published as the next one may be stolen too.
  assert.not.ok(after.some((one) => before.includes(one)));
  const jwt = await jwts.sign(team);
  assert.is(decodeProtectedHeader(jwt).kid, kid);
  assert.is((await jwts.verify(team, jwt)).status, 'VALID');
  const left = await world.sql`
    select kid from signing_keys where team_id = ${team.id} and private_encrypted is not null`;
  assert.equal(left.map((row) => row.kid as string).toSorted(), after.toSorted());
  const told = await world.sql`
    select before, after from audit_log
    where team_id = ${team.id} and operation = 'POST /api/v1/jwt/rotate' and after is null`;
  assert.equal(told.map((line) => line.before.kid as string).toSorted(), before.toSorted());
});

test('a JWT that is signed while its key is being retired is either of the new key or INVALID', async () => {
  const team = await world.newTeam();
  await jwts.sign(team);
  for (let round = 0; round < 3; round++) {
    const signing = Array.from({ length: 6 }, (_, i) => jwts.sign(team, { exp: 60 + round * 10 + i }));
    const [kid, ...signed] = await Promise.all([jwts.rotate(team, { retireNow: true }), ...signing]);
    for (const jwt of signed) {
      const { status } = await jwts.verify(team, jwt);
      assert.is(status, decodeProtectedHeader(jwt).kid === kid ? 'VALID' : 'INVALID');
    }
  }
});
