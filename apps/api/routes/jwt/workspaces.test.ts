import { decodeJwt } from 'jose';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/jwt';
const CLAIM = 'keytally_workspaces';
const permissions: Permission[] = ['jwt:sign', 'jwt:verify'];
let world: World;
let a: string;
let b: string;
let c: string;
const test = suite('JWTs of workspaces');
test.before(async () => {
  world = await makeWorld();
  [a, b, c] = [await make(), await make(), await make()];
});
test.after(() => world?.stop());

test('a JWT carries the workspaces that its signer is limited to, and verifying it answers them', async () => {
  const limited = await token([b, a]);
  const jwt = await sign({}, limited);
  assert.equal(decodeJwt(jwt)[CLAIM], [a, b].toSorted());
  const answer = (await verify(jwt)).body;
  assert.is(answer.status, 'VALID', JSON.stringify(answer));
  assert.equal(answer.workspaceIds, [a, b].toSorted());
  assert.equal(answer.payload, {}, 'the claim is not part of the payload');
  const wide = await sign({});
  assert.not.ok(CLAIM in decodeJwt(wide));
  assert.not.ok('workspaceIds' in (await verify(wide)).body);
});

test('a signer may narrow a JWT to some of its own workspaces, and never name another', async () => {
  const limited = await token([a, b]);
  assert.equal(decodeJwt(await sign({ workspaceIds: [b] }, limited))[CLAIM], [b]);
  assert.equal(decodeJwt(await sign({ workspaceIds: [a] }))[CLAIM], [a]);
  const foreign = await world.newWorkspace((await world.newTeam()).id);
  for (const [workspaceIds, who] of [
    [[c], limited],
    [[a, c], limited],
    [[foreign], world.team.token],
    [[newId('ws')], world.team.token],
    [['x'], world.team.token],
  ] as const)
    assert.is((await create({ workspaceIds }, who)).body.error?.code, 40302, JSON.stringify(workspaceIds));
  for (const payload of [{ [CLAIM]: [c] }, { [CLAIM]: null }]) {
    const refused = await create({ payload }, limited);
    assert.is(refused.body.error?.code, 40005, refused.text);
  }
  for (const workspaceIds of [[], [a, a], Array(33).fill(a), 'x', null])
    assert.is((await create({ workspaceIds })).body.error?.code, 40001, JSON.stringify(workspaceIds));
});

test('a JWT of workspaces that the verifying token may not use is INVALID for it, one of a shared workspace is not', async () => {
  const jwt = await sign({ workspaceIds: [a, b] });
  assert.is((await verify(jwt, await token([b, c]))).body.status, 'VALID');
  assert.equal((await verify(jwt, await token([c]))).body, { status: 'INVALID', reason: 'WORKSPACE_FORBIDDEN' });
  assert.is((await verify(await sign({}), await token([c]))).body.status, 'VALID', 'one of the whole team');
});

test('a JWT whose workspaces are all deleted is INVALID, and none can be signed for them', async () => {
  const [gone, left] = [await make(), await make()];
  const limited = await token([gone]);
  const [jwt, both] = [await sign({}, limited), await sign({ workspaceIds: [gone, left] })];
  await must(200, world.call('delete', `/api/v1/workspace/${gone}`));
  assert.equal((await verify(jwt)).body, { status: 'INVALID', reason: 'WORKSPACE_FORBIDDEN' });
  assert.is((await verify(both)).body.status, 'VALID');
  assert.is((await create({}, limited)).body.error.code, 40302);
  assert.equal(decodeJwt(await sign({}, await token([gone, left])))[CLAIM], [left]);
});

test('a token of more workspaces than a JWT may carry must say which', async () => {
  const many = await Promise.all(Array.from({ length: 33 }, () => world.newWorkspace(world.team.id)));
  const limited = await token(many);
  const refused = await create({}, limited);
  assert.is(refused.body.error?.code, 40001, refused.text);
  assert.is(refused.body.error.details[0].path, '/workspaceIds');
  const jwt = await sign(
    { payload: { a: 'x'.repeat(4080) }, workspaceIds: many.slice(0, 32), aud: 'x'.repeat(256) },
    limited,
  );
  assert.ok(jwt.length < 8192, `${jwt.length} characters fit into a header`);
});

test.run();

async function make(): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
}

function token(workspaceIds: string[]): Promise<string> {
  return world.newToken(world.team.id, permissions, workspaceIds);
}

function create(body: object, who = world.team.token) {
  return world.call('post', PATH, { payload: {}, ...body }, { token: who });
}

async function sign(body: object, who?: string): Promise<string> {
  return (await must(201, create(body, who))).body.jwt;
}

function verify(jwt: string, who = world.team.token) {
  return world.call('post', `${PATH}/verify`, { jwt }, { token: who });
}
