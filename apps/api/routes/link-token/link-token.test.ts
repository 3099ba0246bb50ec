import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { inTime, secondsUntil } from '../../../../tests/helpers/in-time.ts';
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
  const before = Date.now();
  const made = await world.call('post', PATH, body);
  assert.is(made.status, 201, made.text);
  const { linkToken } = made.body;
  assert.match(linkToken.id, /^link_[0-9a-z]{26}$/);
  assert.match(linkToken.token, /^lt_[0-9]{2}[0-9A-Za-z]{32}$/);
  assert.equal(linkToken, { id: linkToken.id, token: linkToken.token, expiresAt: linkToken.expiresAt, ...body });
  const madeAt = linkToken.expiresAt - 900_000;
  assert.ok(madeAt > before - 5_000 && madeAt < Date.now() + 5_000, 'it lives 15 minutes unless told otherwise');

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
  const { linkToken, validate } = await inTime(1_000, async (until) => {
    const expiresIn = secondsUntil(until);
    const { linkToken } = (await world.call('post', PATH, { workspaceId, customerId: 'c', expiresIn })).body;
    const validate = async () => (await world.call('get', `${PATH}/${linkToken.token}`)).body;
    assert.is((await validate()).valid, true);
    return { linkToken, validate };
  });
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
    [{ workspaceId, customerId: 'c', billingId: 5 }, '/billingId'],
    [{ workspaceId, customerId: 'c', permissions: ['delete'] }, '/permissions/0'],
    [{ workspaceId, customerId: 'c', permissions: ['rotate', 'rotate'] }, '/permissions'],
    [{ workspaceId, customerId: 'c', bid: 'b' }, '/bid'],
  ] as const) {
    const answer = await world.call('post', PATH, body);
    assert.is(answer.status, 400, answer.text);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === field),
      answer.text,
    );
  }
});

test('what a link token gives stands in every answer about it, and in the audit log', async () => {
  const billing = { workspaceId, externalMeterId: 'm' };
  const billingId = (await world.call('post', '/api/v1/customer-billing', billing)).body.billing.id;
  const gives = { workspaceId, customerId: 'c', billingId, permissions: ['rotate'] };
  const { id, token, ...made } = (await world.call('post', PATH, gives)).body.linkToken;
  assert.equal(made, { expiresAt: made.expiresAt, ...gives });
  assert.equal((await world.call('get', `${PATH}/${token}`)).body, { valid: true, ...made });
  assert.equal((await world.call('delete', `${PATH}/${token}`)).body, { valid: false, ...made });
  const { auditLog } = (await world.call('get', `/api/v1/audit-log?resourceId=${id}`)).body;
  assert.equal(
    auditLog.map(({ before, after }: Record<string, unknown>) => [before, after]),
    [
      [undefined, { valid: true, ...made }],
      [
        { valid: true, ...made },
        { valid: false, ...made },
      ],
    ],
  );
});

test('a record of another workspace or team is not there', async () => {
  const there = await newWorkspace();
  const theirs = await world.newTeam();
  const made = async (token: string, workspaceId: string) =>
    (await world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId: 'x' }, { token })).body
      .billing.id;
  const foreign = await made(theirs.token, await world.newWorkspace(theirs.id));
  for (const billingId of ['b', await made(world.team.token, there), foreign])
    assert.is((await world.call('post', PATH, { workspaceId, customerId: 'c', billingId })).body.error.code, 40404);
});

test('who makes a link token must hold what it gives', async () => {
  const gives = ['key:read', 'billing:read', 'usage:read'] as const;
  const body = { workspaceId, customerId: 'c' };
  for (const lacking of gives) {
    const token = await world.newToken(world.team.id, ['link:write', ...gives.filter((one) => one !== lacking)]);
    const refused = await world.call('post', PATH, body, { token });
    assert.equal([refused.body.error.code, refused.body.error.message.endsWith(`it lacks ${lacking}.`)], [40303, true]);
  }
  const looks = await world.newToken(world.team.id, ['link:write', ...gives]);
  assert.is((await world.call('post', PATH, body, { token: looks })).status, 201);
  const rotates = { ...body, permissions: ['rotate'] };
  assert.is((await world.call('post', PATH, rotates, { token: looks })).body.error.code, 40303);
  const writes = await world.newToken(world.team.id, ['link:write', ...gives, 'key:write']);
  assert.is((await world.call('post', PATH, rotates, { token: writes })).status, 201);
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
