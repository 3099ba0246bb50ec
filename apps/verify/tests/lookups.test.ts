import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeBackground } from '../../api/tests/helpers/background.ts';
import { makeCustomers, must, newWorkspace } from '../../../tests/helpers/customers.ts';
import { joinWorld, type Answer } from '../../../tests/helpers/world.ts';

// A verify process keeps what the script looked up and uses it for the next call: never after a change, and never for another
// question.

const world = await joinWorld();
const workspaceId = await newWorkspace(world, { name: 'lookups' });
const customers = makeCustomers(world, workspaceId);
const background = makeBackground(world);

type Key = { id: string; key: string; externalMeterId: string; representation: string; scopeId: string };
type Change = [what: string, before: string, after: string, change: (key: Key) => Promise<unknown>];

const pathOf = (id: string) => `/api/v1/workspace/${workspaceId}/api-key/${id}`;
const ofKey = ({ id }: Key, fields: object) => must(200, world.call('patch', pathOf(id), fields));

// verify.test.ts has changes that take reasons to refuse away, address-lists.test.ts those of the workspace's list.
const changes: Change[] = [
  ['a key is disabled', 'VALID', 'DISABLED', (key) => ofKey(key, { enabled: false })],
  ['a key has reached its end', 'VALID', 'EXPIRED', expire],
  ['a key is deleted', 'VALID', 'DELETED', ({ id }) => must(200, world.call('delete', pathOf(id)))],
  ['a key loses a scope', 'VALID', 'SCOPE_MISSING', (key) => ofKey(key, { scopes: [] })],
  ['a scope is deleted', 'VALID', 'SCOPE_MISSING', deleteScope],
  ['a key gets a list of addresses', 'VALID', 'IP_NOT_ALLOWED', (key) => ofKey(key, { allowedIPs: ['192.0.2.0/24'] })],
  ['a spend cap is set', 'VALID', 'SPEND_CAP_REACHED', setSpendCap],
  ['a key is rotated', 'VALID', 'NOT_FOUND', ({ id }) => must(200, world.call('post', `${pathOf(id)}/rotate`))],
];

for (const [what, before, after, change] of changes) {
  test(`${what}: the next call is answered by it`, async () => {
    const key = await newKey();
    for (let i = 0; i < 2; i++) assert.is(await answerTo(key), before);
    await change(key);
    for (let i = 0; i < 2; i++) assert.is(await answerTo(key), after);
  });
}

test('a lookup never answers another question: other scopes, another team, a token of another workspace', async () => {
  const key = await newKey();
  const other = await world.newTeam();
  const limited = await world.newToken(world.team.id, ['key:verify'], [await world.newWorkspace(world.team.id)]);
  for (let i = 0; i < 2; i++) {
    assert.is(reasonIn(await verify(key)), 'VALID');
    assert.is(reasonIn(await verify(key, { create: true })), 'SCOPE_MISSING');
    assert.is(reasonIn(await verify(key, {}, other.token)), 'NOT_FOUND');
    assert.is(reasonIn(await verify(key, {}, limited)), 'NOT_FOUND');
  }
});

async function deleteScope({ scopeId }: Key): Promise<void> {
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/scope/${scopeId}`));
}

async function setSpendCap({ externalMeterId }: Key): Promise<void> {
  const { id } = await customers.billing(externalMeterId);
  await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, { spendCap: '0' }));
}

async function expire({ id }: Key): Promise<void> {
  await world.sql`update api_keys set expires_at = ${Date.now() - 1} where id = ${id}`;
  await background.apply('key', id);
}

async function newKey(): Promise<Key> {
  const representation = `r${Math.random()}`;
  const path = `/api/v1/workspace/${workspaceId}/scope`;
  const scope = (await must(201, world.call('post', path, { name: representation, representation }))).body.scope;
  const externalMeterId = await customers.newMeter({ totalCredits: '1000' });
  const scopes = [{ representation, read: true }];
  return {
    ...(await customers.newKey({ externalMeterId, scopes })),
    externalMeterId,
    representation,
    scopeId: scope.id,
  };
}

function verify(key: Key, flags: object = {}, token = world.team.token, url = world.verify.url) {
  const requestedScopes = [{ representation: key.representation, read: true, ...flags }];
  const body = { key: key.key, requestedScopes, ip: '198.51.100.1', billing: { usage: '0.5' } };
  return customers.verify(body, { token, url });
}

// The api and verify each keep lookups of their own.
async function answerTo(key: Key): Promise<string> {
  const byVerify = reasonIn(await verify(key));
  const byApi = reasonIn(await verify(key, {}, world.team.token, world.api.url));
  assert.is(byVerify, byApi);
  return byVerify;
}

function reasonIn({ status, body, text }: Answer): string {
  assert.is(status, 200, text);
  return body.reason ?? body.status;
}
