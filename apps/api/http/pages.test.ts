import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readPage } from './pages.ts';

test('a page of large items ends at a megabyte, and its cursor leads to the rest: each once, in order', async () => {
  const rows = Array.from({ length: 120 }, (_, i) => ({
    id: `key_${String(i).padStart(3, '0')}`,
    text: 'x'.repeat(70_000),
  }));
  const read = async (after: string, take: number) => rows.filter(({ id }) => id > after).slice(0, take);
  const pages: { id: string }[][] = [];
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const asked: { limit: number; cursor?: string } = { limit: 200, ...(cursor && { cursor }) };
    const { items, nextCursor } = await readPage('items', asked, 'large ones', { read, present: (row) => row });
    pages.push(items);
    cursor = nextCursor;
  }
  const found = pages.flat().map(({ id }) => id);
  const ids = rows.map(({ id }) => id);
  assert.equal(found, ids);
  for (const page of pages) assert.ok(JSON.stringify(page).length < 1_024 * 1_024 + 1_000);
  assert.is(pages.length, 9);
});

test('a cursor that is made up is refused where its id holds what Postgres takes for no text', async () => {
  const rows = { read: async () => [{ id: 'key_\0' }, { id: 'key_1' }], present: (row: { id: string }) => row };
  const { nextCursor: cursor } = await readPage('items', { limit: 1 }, 'list', rows);
  await rejects(readPage('items', { limit: 1, cursor: cursor! }, 'list', rows), { errorName: 'invalid_cursor' });
});
