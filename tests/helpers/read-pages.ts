import { must } from './customers.ts';
import type { Answer } from './world.ts';

/** Reads a list to its end, so many items a page; `read` is given what to add to the query. */
export async function readPages<Item>(limit: number, read: (query: string) => Promise<Answer>): Promise<Item[][]> {
  const pages: Item[][] = [];
  let query = `limit=${limit}`;
  for (;;) {
    const { nextCursor, ...lists } = (await must(200, read(query))).body;
    pages.push(Object.values(lists)[0] as Item[]);
    if (!nextCursor) return pages;
    query = `limit=${limit}&cursor=${nextCursor}`;
  }
}
