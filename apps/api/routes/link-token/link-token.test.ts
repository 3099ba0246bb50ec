import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { hashKeyText } from '../../../../shared/values/key-text.ts';
import { callsOf, columns, joinWorld, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/link-token';
const world = await joinWorld();
const { ask } = callsOf(world);
const workspaceId = await newWorkspace(world);

const make = (body: object, by?: string) => callsOf(world, by).make(PATH, body);
const read = async (token: string) => (await must(200, ask('get', `${PATH}/${token}`))).body;

test('a link token is made, validated and revoked: each answer and the audit log tell what it gives, and no table its secret', async () => {
  const billingId = await newBilling(workspaceId);
  const body = { workspaceId, customerId: 'customer 1', externalBillingId: 'b-1', billingId, permissions: ['rotate'] };
  const before = Date.now();
  const { id, token, ...fields } = await make(body);
  assert.match(id, /^link_[0-9a-z]{26}$/);
  assert.match(token, /^lt_[0-9]{2}[0-9A-Za-z]{32}$/);
  assert.equal(fields, { ...body, expiresAt: fields.expiresAt });
  const madeAt = fields.expiresAt - 900_000;
  assert.ok(madeAt > before - 5_000 && madeAt < Date.now() + 5_000, 'it lives 15 minutes unless told otherwise');
  const [row] = await world.sql`select * from link_tokens where id = ${id}`;
  assert.not.ok(JSON.stringify(row).includes(token.slice(5)));

  const [live, revoked] = [
    { valid: true, ...fields },
    { valid: false, ...fields },
  ];
  assert.equal(await read(token), live);
  for (let i = 0; i < 2; i++) assert.equal((await ask('delete', `${PATH}/${token}`)).body, revoked);
  assert.equal(await read(token), revoked);
  assert.equal(columns(await callsOf(world).read(`/api/v1/audit-log?resourceId=${id}`), 'before', 'after'), [
    [undefined, live],
    [live, revoked],
  ]);
});

test('a link token lives as long as it was told to, and still answers its fields when it has expired', async () => {
  const body = { workspaceId, customerId: 'c', expiresIn: 86_400 };
  const { id, token, expiresAt } = await make(body);
  assert.ok(expiresAt > Date.now() + 86_000_000);
  const maker = await world.newToken(world.team.id, ['link:write', 'key:read', 'billing:read', 'usage:read']);
  await world.sql`update access_tokens set expires_at = ${expiresAt - 1} where hash = ${hashKeyText(maker)}`;
  assert.is((await make(body, maker)).expiresAt, expiresAt - 1, 'its maker lives no longer');
  // As the database's clock tells it.
  const expire = (ms: number) => world.sql`
    update link_tokens set expires_at = floor(extract(epoch from now()) * 1000) + ${ms} where id = ${id}`;
  await expire(60_000);
  assert.is((await read(token)).valid, true);
  await expire(0);
  const expired = await read(token);
  assert.equal(expired, { valid: false, expiresAt: expired.expiresAt, workspaceId, customerId: 'c' });
});

test('the billing record of a link token must be one of its workspace', async () => {
  const theirs = await world.newTeam();
  const foreign = await newBilling(await world.newWorkspace(theirs.id), theirs.token);
  for (const billingId of ['b', await newBilling(await newWorkspace(world)), foreign])
    await refused(40404, ask('post', PATH, { workspaceId, customerId: 'c', billingId }));
});

test('who makes a link token must hold what it gives', async () => {
  const gives = ['key:read', 'billing:read', 'usage:read'] as const;
  const body = { workspaceId, customerId: 'c' };
  const rotating = { ...body, permissions: ['rotate'] };
  const looks = await world.newToken(world.team.id, ['link:write', ...gives]);
  const writes = await world.newToken(world.team.id, ['link:write', ...gives, 'key:write']);
  await make(body, looks);
  await make(rotating, writes);
  await refused(40303, callsOf(world, looks).ask('post', PATH, rotating));
  for (const lacking of gives) {
    const token = await world.newToken(world.team.id, ['link:write', ...gives.filter((one) => one !== lacking)]);
    const { message } = await refused(40303, callsOf(world, token).ask('post', PATH, body));
    assert.match(message, `it lacks ${lacking}.`);
  }
});

async function newBilling(workspace: string, token?: string): Promise<string> {
  const meter = { workspaceId: workspace, externalMeterId: 'm' };
  return (await callsOf(world, token).make('/api/v1/customer-billing', meter)).id;
}
