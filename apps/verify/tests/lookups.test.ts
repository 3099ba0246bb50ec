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
type Change = [what: string, before: string, after: string, change: (key: Key) => Promise<unknown>, of?: object];

const patch = (path: string, fields: object) => must(200, world.call('patch', path, fields));
const ofKey = ({ id }: Key, fields: object) => patch(`/api/v1/workspace/${workspaceId}/api-key/${id}`, fields);
const ofWorkspace = (fields: object) => patch(`/api/v1/workspace/${workspaceId}`, fields);
const toBilling = async ({ externalMeterId }: Key, fields: object) =>
  patch(`/api/v1/customer-billing/${(await customers.billing(externalMeterId)).id}`, fields);

const changes: Change[] = [
  ['a key is disabled', 'VALID', 'DISABLED', (key) => ofKey(key, { enabled: false })],
  ['a key is enabled', 'DISABLED', 'VALID', (key) => ofKey(key, { enabled: true }), { enabled: false }],
  ['a key has reached its end', 'VALID', 'EXPIRED', expire],
  [
    'a key is deleted',
    'VALID',
    'DELETED',
    ({ id }) => must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${id}`)),
  ],
  ['a key loses a scope', 'VALID', 'SCOPE_MISSING', (key) => ofKey(key, { scopes: [] })],
  [
    'a scope is deleted',
    'VALID',
    'SCOPE_MISSING',
    ({ scopeId }) => must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/scope/${scopeId}`)),
  ],
  ['a key gets a list of addresses', 'VALID', 'IP_NOT_ALLOWED', (key) => ofKey(key, { allowedIPs: ['192.0.2.0/24'] })],
  [
    'a key drops its list of addresses',
    'IP_NOT_ALLOWED',
    'VALID',
    (key) => ofKey(key, { allowedIPs: null }),
    { allowedIPs: ['192.0.2.0/24'] },
  ],
  [
    'the workspace gets a list of addresses',
    'VALID',
    'IP_NOT_ALLOWED',
    () => ofWorkspace({ defaultAllowedIPs: ['192.0.2.0/24'] }),
  ],
  [
    'the workspace drops its list of addresses',
    'IP_NOT_ALLOWED',
    'VALID',
    () => ofWorkspace({ defaultAllowedIPs: [] }),
  ],
  ['a spend cap is set', 'VALID', 'SPEND_CAP_REACHED', (key) => toBilling(key, { spendCap: '0' })],
  [
    'a key is rotated',
    'VALID',
    'NOT_FOUND',
    ({ id }) => must(200, world.call('post', `/api/v1/workspace/${workspaceId}/api-key/${id}/rotate`)),
  ],
];

for (const [what, before, after, change, of] of changes) {
  test(`${what}: the next call is answered by it`, async () => {
    const key = await newKey(of);
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

async function expire({ id }: Key): Promise<void> {
  await world.sql`update api_keys set expires_at = ${Date.now() - 1} where id = ${id}`;
  await background.apply('key', id);
}

async function newKey(fields: object = {}): Promise<Key> {
  const representation = `r${Math.random()}`;
  const path = `/api/v1/workspace/${workspaceId}/scope`;
  const scope = (await must(201, world.call('post', path, { name: representation, representation }))).body.scope;
  const externalMeterId = await customers.newMeter({ totalCredits: '1000' });
  const scopes = [{ representation, read: true }];
  return {
    ...(await customers.newKey({ externalMeterId, scopes, ...fields })),
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
  const [byVerify, byApi] = [
    reasonIn(await verify(key)),
    reasonIn(await verify(key, {}, world.team.token, world.api.url)),
  ];
  assert.is(byVerify, byApi);
  return byVerify;
}

function reasonIn({ status, body, text }: Answer): string {
  assert.is(status, 200, text);
  return body.reason ?? body.status;
}
