import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { callsOf, column, joinWorld, refused } from '../../tests/helpers/calls.ts';

const world = await joinWorld();
const calls = callsOf(world);

type Key = { id: string; name: string; maskedKey: string; key?: string };

async function makeKeys(keys: Record<string, object>) {
  const workspace = await calls.make('/api/v1/workspace', { name: 'w' });
  const made: Key[] = [];
  for (const [name, more] of Object.entries(keys)) {
    const body = { name, workspaceId: workspace.id, ...more };
    made.push(await calls.make('/api/v1/api-key', body));
  }
  const path = `/api/v1/workspace/${workspace.id}`;
  return {
    path,
    made,
    list: (query: string) => world.call('get', `${path}/api-keys?${query}`),
    remove: (key: Key) => calls.remove(`${path}/api-key/${key.id}`),
  };
}

test('filters narrow a list, alone and together, page by page, each key once and as a single read has it', async () => {
  const { path, made, list, remove } = await makeKeys({
    a: { customerId: 'c1', externalMeterId: 'm1' },
    b: { customerId: 'c1', externalMeterId: 'm2' },
    c: { customerId: 'c2', externalMeterId: 'm1', enabled: false },
    d: {},
    e: { enabled: false, customerId: 'c1' },
  });
  for (const key of made.slice(3)) await remove(key);
  await makeKeys({ 'of another workspace': { customerId: 'c1' } });
  for (const [filter, found] of [
    ['', 'abcde'],
    ['customerId=c1', 'abe'],
    ['externalMeterId=m1', 'ac'],
    ['enabled=true', 'abd'],
    ['enabled=false', 'ce'],
    ['deleted=false', 'abc'],
    ['deleted=true', 'de'],
    ['customerId=c1&deleted=false&enabled=true&externalMeterId=m2', 'b'],
    ['customerId=none', ''],
  ] as const) {
    const pages = await readPages<Key>(2, (page) => list(`${page}&${filter}`));
    assert.ok(pages.every((page) => page.length <= 2));
    const names = pages.flat().map(({ name }) => name);
    assert.is(names.join(''), found, filter);
  }
  for (const listed of (await list('')).body.apiKeys as Key[]) {
    assert.equal(await calls.read(`${path}/api-key/${listed.id}`), listed);
    assert.is(listed.key, undefined);
  }
  await refused(40001, list('enabled=true&enabled=false'));
});

test('a search finds text in the name, the customer and the masked key, in any case, and reads on where a page has none', async () => {
  const { made, list } = await makeKeys({
    'Änne 100%': { customerId: 'ACME-1' },
    "x' or 1=1": { customerId: 'other', prefix: 'live' },
    acme_backup: {},
  });
  for (const [search, found, more = ''] of [
    ['acme', ['Änne 100%', 'acme_backup']],
    ['änne', ['Änne 100%']],
    ['0%', ['Änne 100%']],
    ["' OR 1", ["x' or 1=1"]],
    ['LIVE_', ["x' or 1=1"]],
    [made[2]!.maskedKey.slice(-4), ['acme_backup']],
    ['acme', ['Änne 100%'], '&customerId=ACME-1'],
    ['nothing', []],
  ] as const) {
    const query = `&search=${encodeURIComponent(search)}${more}`;
    const pages = await readPages<Key>(1, (page) => list(page + query));
    assert.equal(column(pages.flat(), 'name'), found, search);
  }
});

test('a filter that few of many keys fit reads a bounded number of them for a page', async () => {
  const { made, list, remove } = await makeKeys({ first: {} });
  await world.sql`
    insert into api_keys select (jsonb_populate_record(k, jsonb_build_object('id', 'key_' || lpad(i::text, 5, '0') || right(k.workspace_id, 21)))).*
    from api_keys k, generate_series(1, 1500) i where k.id = ${made[0]!.id}`;
  await remove(made[0]!);
  for (const [query, found] of [
    ['deleted=true', ['first']],
    ['deleted=true&enabled=false', []],
  ] as const) {
    const pages = await readPages<Key>(50, (page) => list(`${page}&${query}`));
    assert.equal([pages.length, pages[0], column(pages[1]!, 'name')], [2, [], found], 'the first page reads others');
  }
});
