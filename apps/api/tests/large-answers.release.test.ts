import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../shared/values/ids.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';
import { must, newWorkspace } from '../../../tests/helpers/customers.ts';

const PAGE_BYTES = 1024 * 1024;
const KEYS = 120;
const ADDRESSES = Array.from({ length: 1_000 }, (_, i) => `2001:db8:1234:5678:9abc:def0:${i + 4096}:0/128`);
const world = await makeWorld();
const workspaceId = await newWorkspace(world);

/** Reads a list page by page: its items, and the bytes of each page. */
async function readAll(path: string, field: string) {
  const items: { id: string }[] = [];
  const pages: number[] = [];
  let cursor = '';
  do {
    const { body, text } = await must(200, world.call('get', `${path}?limit=200${cursor && `&cursor=${cursor}`}`));
    items.push(...body[field]);
    pages.push(Buffer.byteLength(text));
    cursor = body.nextCursor ?? '';
  } while (cursor);
  return { items, pages };
}

test('a page of large keys ends at a megabyte, and its cursor leads to the rest: each key once, in order', async () => {
  const ids = Array.from({ length: KEYS }, () => newId('key'));
  await world.sql`
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, allowed_ips, metadata)
    select id, ${world.team.id}, ${workspaceId}, 0, 'large', 'key', '', true, ${ADDRESSES}, json_build_object('text', repeat('x', 4000))
    from unnest(${ids}::text[]) as made (id)`;
  const { items, pages } = await readAll(`/api/v1/workspace/${workspaceId}/api-keys`, 'apiKeys');
  assert.equal(
    items.map(({ id }) => id),
    ids.toSorted((a, b) => (a < b ? -1 : 1)),
  );
  assert.ok(Math.max(...pages) < PAGE_BYTES + 1_000, `a page has ${Math.max(...pages)} bytes`);
  assert.ok(pages.length > 4 && pages.length < 12, `${pages.length} pages`);
});

test('a page of large workspaces, and one of their audit log, end at a megabyte', async () => {
  for (let i = 0; i < 30; i++)
    await must(201, world.call('post', '/api/v1/workspace', { name: `w${i}`, defaultAllowedIPs: ADDRESSES }));
  const workspaces = await readAll('/api/v1/workspace', 'workspaces');
  assert.is(workspaces.items.length, 31);
  const audit = await readAll('/api/v1/audit-log', 'auditLog');
  assert.ok(audit.items.length >= 31);
  for (const { pages, items } of [workspaces, audit]) {
    assert.ok(Math.max(...pages) < PAGE_BYTES + 1_000, `a page has ${Math.max(...pages)} bytes`);
    assert.is(new Set(items.map(({ id }) => id)).size, items.length);
  }
});

test('a page of small items has as many as its limit asks for, up to 200', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'small' }))).body;
  await world.sql`
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled)
    select 'key_small' || lpad(i::text, 4, '0'), ${world.team.id}, ${workspace.id}, 0, 'small', 'key', '', true from generate_series(1, 250) i`;
  for (const [limit, expected] of [
    [1, 1],
    [49, 49],
    [50, 50],
    [51, 51],
    [200, 200],
  ] as const) {
    const { body } = await must(200, world.call('get', `/api/v1/workspace/${workspace.id}/api-keys?limit=${limit}`));
    assert.is(body.apiKeys.length, expected);
    assert.ok(body.nextCursor);
  }
  const { items, pages } = await readAll(`/api/v1/workspace/${workspace.id}/api-keys`, 'apiKeys');
  assert.equal([items.length, pages.length], [250, 2]);
});
