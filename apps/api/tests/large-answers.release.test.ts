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
