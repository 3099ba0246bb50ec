import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/link-token';
let world: World;
let workspaceId: string;
const test = suite('link tokens');
test.before(async () => {
  world = await makeWorld();
  workspaceId = await newWorkspace();
});
test.after(() => world?.stop());

test('a link token is created, validated and revoked', async () => {
  const body = { workspaceId, customerId: 'customer 1', externalBillingId: 'b-1' };
  const made = await world.call('post', PATH, body);
  assert.is(made.status, 201, made.text);
  const { linkToken } = made.body;
  assert.match(linkToken.id, /^link_[0-9a-z]{26}$/);
  assert.match(linkToken.token, /^lt_[0-9]{2}[0-9A-Za-z]{32}$/);
  assert.equal(linkToken, { id: linkToken.id, token: linkToken.token, expiresAt: linkToken.expiresAt, ...body });
  assert.ok(Math.abs(linkToken.expiresAt - Date.now() - 900_000) < 5_000, 'it lives 15 minutes unless told otherwise');

  const found = await world.call('get', `${PATH}/${linkToken.token}`);
  assert.is(found.status, 200, found.text);
  const fields = { expiresAt: linkToken.expiresAt, ...body };
  assert.equal(found.body, { valid: true, ...fields });
  const revoked = await world.call('delete', `${PATH}/${linkToken.token}`);
  assert.is(revoked.status, 200, revoked.text);
  assert.equal(revoked.body, { valid: false, ...fields });
  assert.equal((await world.call('get', `${PATH}/${linkToken.token}`)).body, { valid: false, ...fields });
  assert.equal((await world.call('delete', `${PATH}/${linkToken.token}`)).body, { valid: false, ...fields });
});

test('an expired link token still answers its fields', async () => {
  const { linkToken } = (await world.call('post', PATH, { workspaceId, customerId: 'c', expiresIn: 1 })).body;
  const validate = async () => (await world.call('get', `${PATH}/${linkToken.token}`)).body;
  assert.is((await validate()).valid, true);
  const expired = await eventually('it expires', async () => {
    const result = await validate();
    return !result.valid && result;
  });
  assert.ok(Date.now() >= linkToken.expiresAt, 'not before its time');
  assert.equal(expired, { valid: false, expiresAt: linkToken.expiresAt, workspaceId, customerId: 'c' });
});

test("a link token's secret is stored nowhere", async () => {
  const { linkToken } = (await world.call('post', PATH, { workspaceId, customerId: 'hidden' })).body;
  const [row] = await world.sql`select * from link_tokens where id = ${linkToken.id}`;
  assert.not.ok(JSON.stringify(row).includes(linkToken.token.slice(5)));
});

test('an unknown token is not valid, and cannot be revoked', async () => {
  const { linkToken } = (await world.call('post', PATH, { workspaceId, customerId: 'c' })).body;
  const mistyped = linkToken.token.slice(0, -1) + (linkToken.token.endsWith('0') ? '1' : '0');
  for (const text of [mistyped, linkToken.id, 'x', '%00', world.team.token, 'lt_']) {
    const answer = await world.call('get', `${PATH}/${text}`);
    assert.equal([answer.status, answer.body], [200, { valid: false }], text);
    assert.is((await world.call('delete', `${PATH}/${text}`)).body.error.code, 40406, text);
  }
});

test('bad input is a 400 that names the field', async () => {
  for (const [body, field] of [
    [{ workspaceId }, '/customerId'],
    [{ customerId: 'c' }, '/workspaceId'],
    [{ workspaceId, customerId: '' }, '/customerId'],
    [{ workspaceId, customerId: 'c', expiresIn: 0 }, '/expiresIn'],
    [{ workspaceId, customerId: 'c', expiresIn: 86_401 }, '/expiresIn'],
    [{ workspaceId, customerId: 'c', expiresIn: '900' }, '/expiresIn'],
    [{ workspaceId, customerId: 'c', externalBillingId: 5 }, '/externalBillingId'],
    [{ workspaceId, customerId: 'c', billingId: 'b' }, '/billingId'],
  ] as const) {
    const answer = await world.call('post', PATH, body);
    assert.is(answer.status, 400, answer.text);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === field),
      answer.text,
    );
  }
});

test('no answer tells anything without a token, without the permission, or to another team or workspace', async () => {
  const { linkToken } = (await world.call('post', PATH, { workspaceId, customerId: 'ours' })).body;
  const path = `${PATH}/${linkToken.token}`;
  const body = { workspaceId, customerId: 'theirs' };
  const reader = await world.newToken(world.team.id, ['link:read']);
  const writer = await world.newToken(world.team.id, ['link:write']);
  for (const [method, where, given, lesser] of [
    ['post', PATH, body, reader],
    ['get', path, undefined, writer],
    ['delete', path, undefined, reader],
  ] as const) {
    assert.is((await world.call(method, where, given, { token: null })).body.error.code, 40101);
    assert.is((await world.call(method, where, given, { token: lesser })).body.error.code, 40301);
  }
  const other = (await world.newTeam()).token;
  const elsewhere = await world.newToken(world.team.id, ['link:read', 'link:write'], [await newWorkspace()]);
  for (const token of [other, elsewhere]) {
    assert.is((await world.call('post', PATH, body, { token })).body.error.code, 40302);
    assert.equal((await world.call('get', path, undefined, { token })).body, { valid: false });
    assert.is((await world.call('delete', path, undefined, { token })).body.error.code, 40406);
  }
  const limited = await world.newToken(world.team.id, ['link:read', 'link:write'], [workspaceId]);
  assert.is((await world.call('get', path, undefined, { token: limited })).body.valid, true);
  assert.is((await world.call('delete', path, undefined, { token: limited })).body.valid, false);
});

test('an Idempotency-Key gives the same link token again', async () => {
  const headers = { 'Idempotency-Key': 'link-once' };
  const body = { workspaceId, customerId: 'once' };
  const answers = await Promise.all([1, 2, 3].map(() => world.call('post', PATH, body, { headers })));
  for (const answer of answers) assert.equal([answer.status, answer.body], [201, answers[0]!.body]);
  const [stored] = await world.sql`select count(*)::int as n from link_tokens where customer_id = 'once'`;
  assert.is(stored!.n, 1);
});

test.run();

async function newWorkspace(): Promise<string> {
  return (await world.call('post', '/api/v1/workspace', { name: 'w' })).body.workspace.id;
}
