import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';

// Once a change is answered, it holds for the very next verification.

const world = await joinWorld();
const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Acme' }))).body;
const workspacePath = `/api/v1/workspace/${workspace.id}`;

const change = async (path: string, body: object) => (await must(200, world.call('patch', path, body))).body;
const createScope = async (representation: string): Promise<string> =>
  (await must(201, world.call('post', `${workspacePath}/scope`, { name: 'scope', representation }))).body.scope.id;
const reading = (...representations: string[]) =>
  representations.map((representation) => ({ representation, read: true }));

async function create(body: object = {}) {
  const fields = { name: 'Robot', workspaceId: workspacePath.split('/').at(-1), ...body };
  const { apiKey } = (await must(201, world.call('post', '/api/v1/api-key', fields))).body;
  const path = `${workspacePath}/api-key/${apiKey.id}`;
  const verify = async (...wanted: string[]) => {
    const asked = { key: apiKey.key, requestedScopes: reading(...wanted), ip: '10.0.0.1' };
    return (await must(200, world.call('post', '/api/v1/api-key/verify', asked))).body;
  };
  return {
    id: apiKey.id as string,
    path,
    change: (changes: object) => change(path, changes),
    verify,
    status: async (...wanted: string[]): Promise<string> => (await verify(...wanted)).status,
  };
}

test('granting, removing, renaming and deleting scopes hold at once', async () => {
  const id = await createScope('orders');
  await createScope('invoices');
  const key = await create({ scopes: reading('orders') });
  assert.equal([await key.status('orders'), await key.status('orders', 'invoices')], ['VALID', 'INVALID_SCOPES']);
  await key.change({ scopes: reading('orders', 'invoices') });
  assert.is(await key.status('orders', 'invoices'), 'VALID');

  await key.change({ scopes: reading('invoices') });
  await change(`${workspacePath}/scope/${id}`, { representation: 'purchases' });
  await key.change({ scopes: reading('purchases', 'invoices') });
  assert.equal([await key.status('orders'), await key.status('purchases', 'invoices')], ['INVALID_SCOPES', 'VALID']);

  await must(200, world.call('delete', `${workspacePath}/scope/${id}`));
  assert.is(await key.status('purchases'), 'INVALID_SCOPES');
  const { scopes } = await key.verify('invoices');
  assert.is(scopes.length, 1);
  assert.equal((await world.call('get', key.path)).body.apiKey.scopes, scopes);

  // A new scope with the representation of a deleted one is another scope; no key has it yet.
  await createScope('purchases');
  assert.is(await key.status('purchases'), 'INVALID_SCOPES');
  await key.change({ scopes: null });
  assert.is(await key.status('invoices'), 'INVALID_SCOPES');
});
