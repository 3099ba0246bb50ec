import { decodeJwt } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../../shared/values/ids.ts';
import { must, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { makeJwts, PATH } from './helpers/jwts.ts';

const CLAIM = 'keytally_workspaces';
const world = await joinWorld();
const jwts = makeJwts(world);
const [a, b, c] = [await newWorkspace(world), await newWorkspace(world), await newWorkspace(world)];

test('a JWT carries the workspaces that its signer is limited to, and verifying it answers them', async () => {
  const jwt = await jwts.sign(await limitedTo(b, a));
  const both = [a, b].toSorted();
  const { exp, [CLAIM]: claim } = decodeJwt(jwt);
  assert.equal(claim, both);
  const answer = await jwts.verify(world.team, jwt);
  assert.equal(
    answer,
    { status: 'VALID', payload: {}, exp, workspaceIds: both },
    'the claim is not part of the payload',
  );
  const wide = await jwts.sign(world.team);
  assert.not.ok(CLAIM in decodeJwt(wide));
  assert.not.ok('workspaceIds' in (await jwts.verify(world.team, wide)));
});

test('a signer may narrow a JWT to some of its own workspaces, and never name another', async () => {
  const limited = await limitedTo(a, b);
  assert.equal(decodeJwt(await jwts.sign(limited, { workspaceIds: [b] }))[CLAIM], [b]);
  assert.equal(decodeJwt(await jwts.sign(world.team, { workspaceIds: [a] }))[CLAIM], [a]);
  const foreign = await world.newWorkspace((await world.newTeam()).id);
  for (const [workspaceIds, who] of [
    [[c], limited],
    [[a, c], limited],
    [[foreign], world.team],
    [[newId('ws')], world.team],
    [['x'], world.team],
  ] as const)
    assert.is(await refused({ workspaceIds }, who), 40302, JSON.stringify(workspaceIds));
  for (const claim of [[c], null]) assert.is(await refused({ payload: { [CLAIM]: claim } }, limited), 40005);
});

test('a JWT of workspaces that the verifying token may not use is INVALID for it, one of a shared workspace is not', async () => {
  const jwt = await jwts.sign(world.team, { workspaceIds: [a, b] });
  assert.is((await jwts.verify(await limitedTo(b, c), jwt)).status, 'VALID');
  const elsewhere = await limitedTo(c);
  assert.equal(await jwts.verify(elsewhere, jwt), { status: 'INVALID', reason: 'WORKSPACE_FORBIDDEN' });
  const ofTeam = await jwts.sign(world.team);
  assert.is((await jwts.verify(elsewhere, ofTeam)).status, 'VALID', 'one of the whole team');
});

test('a JWT whose workspaces are all deleted is INVALID, and none can be signed for them', async () => {
  const [gone, left] = [await newWorkspace(world), await newWorkspace(world)];
  const limited = await limitedTo(gone);
  const [jwt, both] = [await jwts.sign(limited), await jwts.sign(world.team, { workspaceIds: [gone, left] })];
  await must(200, world.call('delete', `/api/v1/workspace/${gone}`));
  assert.equal(await jwts.verify(world.team, jwt), { status: 'INVALID', reason: 'WORKSPACE_FORBIDDEN' });
  assert.is((await jwts.verify(world.team, both)).status, 'VALID');
  assert.is(await refused({}, limited), 40302);
  assert.equal(decodeJwt(await jwts.sign(await limitedTo(gone, left)))[CLAIM], [left]);
});

test('a token of more workspaces than a JWT may carry must say which, and the longest JWT fits into a header', async () => {
  const many = await Promise.all(Array.from({ length: 33 }, () => world.newWorkspace(world.team.id)));
  const limited = await limitedTo(...many);
  assert.is(await refused({}, limited), 40001);
  const longest = { payload: { a: 'x'.repeat(4080) }, workspaceIds: many.slice(1), aud: 'x'.repeat(256) };
  const jwt = await jwts.sign(limited, longest);
  assert.ok(jwt.length < 8192, `${jwt.length} characters`);
});

async function limitedTo(...workspaceIds: string[]): Promise<{ token: string }> {
  return { token: await world.newToken(world.team.id, ['jwt:sign', 'jwt:verify'], workspaceIds) };
}

async function refused(body: object, { token }: { token: string }): Promise<number | undefined> {
  return (await world.call('post', PATH, { payload: {}, ...body }, { token })).body.error?.code;
}
