import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;
const test = suite('lists of API keys');
test.before(async () => {
  world = await makeWorld();
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body.workspace.id;
  for (const [name, more] of Object.entries({
    a: { customerId: 'c1', externalMeterId: 'm1' },
    b: { customerId: 'c1', externalMeterId: 'm2' },
    c: { customerId: 'c2', externalMeterId: 'm1', enabled: false },
    d: {},
    e: { enabled: false, customerId: 'c1' },
  })) {
    const { apiKey } = (await world.call('post', '/api/v1/api-key', { name, workspaceId, ...more })).body;
    if (name > 'c') await world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${apiKey.id}`);
  }
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'Other' })).body;
  await world.call('post', '/api/v1/api-key', { name: 'not listed', workspaceId: workspace.id, customerId: 'c1' });
});
test.after(() => world?.stop());

const list = (query = '') => world.call('get', `/api/v1/workspace/${workspaceId}/api-keys${query}`);
const names = (keys: { name: string }[]) => keys.map((key) => key.name).join('');

test('filters narrow a list, alone and together', async () => {
  for (const [query, found] of [
    ['', 'abcde'],
    ['?customerId=c1', 'abe'],
    ['?externalMeterId=m1', 'ac'],
    ['?enabled=true', 'abd'],
    ['?enabled=false', 'ce'],
    ['?deleted=false', 'abc'],
    ['?deleted=true', 'de'],
    ['?customerId=c1&deleted=false&enabled=true&externalMeterId=m2', 'b'],
    ['?customerId=none', ''],
  ] as const) {
    const answer = await list(query);
    assert.is(answer.status, 200, answer.text);
    assert.is(names(answer.body.apiKeys), found, query);
    assert.is(answer.body.nextCursor, undefined);
  }
});

test('a search finds text in the name, the customer and the masked key, in any case, and reads on where a page has none', async () => {
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'Searched' })).body;
  const made: Record<string, string> = {};
  for (const [name, more] of Object.entries({
    'Änne 100%': { customerId: 'ACME-1' },
    "x' or 1=1": { customerId: 'other', prefix: 'live' },
    acme_backup: {},
  })) {
    const { apiKey } = (await world.call('post', '/api/v1/api-key', { name, workspaceId: workspace.id, ...more })).body;
    made[name] = apiKey.maskedKey;
  }
  const found = async (search: string, more = '') => {
    const names: string[] = [];
    let cursor = '';
    do {
      const query = `?limit=1&search=${encodeURIComponent(search)}${more}${cursor && `&cursor=${cursor}`}`;
      const { body } = await world.call('get', `/api/v1/workspace/${workspace.id}/api-keys${query}`);
      names.push(...body.apiKeys.map((key: { name: string }) => key.name));
      cursor = body.nextCursor ?? '';
    } while (cursor);
    return names;
  };
  assert.equal(await found('acme'), ['Änne 100%', 'acme_backup']);
  assert.equal(await found('änne'), ['Änne 100%']);
  assert.equal(await found('0%'), ['Änne 100%']);
  assert.equal(await found("' OR 1"), ["x' or 1=1"]);
  assert.equal(await found('LIVE_'), ["x' or 1=1"]);
  assert.equal(await found(made['acme_backup']!.slice(-4)), ['acme_backup']);
  assert.equal(await found('acme', '&customerId=ACME-1'), ['Änne 100%']);
  assert.equal(await found('nothing'), []);
});

test('a filter that few of many keys fit reads a bounded number of them for a page', async () => {
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'Large' })).body;
  const newKey = { name: 'first', workspaceId: workspace.id };
  const { apiKey } = (await world.call('post', '/api/v1/api-key', newKey)).body;
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object(
      'id', 'key_' || lpad(i::text, 26, '0')))).*
    from api_keys k, generate_series(1, 1500) i where k.id = ${apiKey.id}`;
  await world.call('delete', `/api/v1/workspace/${workspace.id}/api-key/${apiKey.id}`);
  for (const [query, found] of [
    ['deleted=true', ['first']],
    ['deleted=true&enabled=false', []],
    ['deleted=true&enabled=true', ['first']],
  ] as const) {
    const path = `/api/v1/workspace/${workspace.id}/api-keys?${query}`;
    const page = (await world.call('get', path)).body;
    assert.equal(page.apiKeys, [], 'the first page reads others');
    const rest = (await world.call('get', `${path}&cursor=${page.nextCursor}`)).body;
    assert.equal(
      rest.apiKeys.map(({ name }: { name: string }) => name),
      found,
    );
    assert.is(rest.nextCursor, undefined);
  }
});

test('a list shows a key as a single read does, without its secret', async () => {
  for (const listed of (await list()).body.apiKeys) {
    assert.equal(
      (await world.call('get', `/api/v1/workspace/${workspaceId}/api-key/${listed.id}`)).body.apiKey,
      listed,
    );
    assert.is(listed.key, undefined);
  }
});

test('a list is read page by page, each key once, filters kept', async () => {
  for (const [query, all] of [
    ['', 'abcde'],
    ['&customerId=c1', 'abe'],
    ['&deleted=false', 'abc'],
  ] as const) {
    let found = '';
    let cursor = '';
    do {
      const page = await list(`?limit=2${query}${cursor && `&cursor=${cursor}`}`);
      assert.ok(page.body.apiKeys.length <= 2);
      found += names(page.body.apiKeys);
      cursor = page.body.nextCursor ?? '';
    } while (cursor);
    assert.is(found, all);
  }
});

test('a wrong query is a 400', async () => {
  for (const [query, code] of [
    ['?enabled=maybe', 40001],
    ['?enabled=true&enabled=false', 40001],
    ['?customer=c1', 40001],
    ['?customerId=%00', 40001],
    ['?limit=0', 40001],
    ['?limit=201', 40001],
    ['?cursor=x', 40007],
  ] as const) {
    const answer = await list(query);
    assert.equal([answer.status, answer.body.error.code], [400, code], answer.text);
  }
});

test.run();
