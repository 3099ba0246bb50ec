import { ApiError } from '../contract/errors.ts';
import type { Books } from '../stores/clickhouse.ts';
import { chunks } from '../values/chunks.ts';

/**
 * Does work that asks the books for some items at once. Where that fails, it does it for half of them at a time, down to those that
 * fail alone, which it gives. So one item that the books can't answer for holds up no other. Throws where a server fails, which
 * `requireBooks` does where the books can't be read at all.
 */
export async function byHalves<Item>(
  items: Item[],
  work: (items: Item[]) => Promise<void>,
  requireBooks: () => Promise<void>,
): Promise<{ item: Item; error: unknown }[]> {
  if (items.length === 0) return [];
  try {
    await work(items);
    return [];
  } catch (error) {
    if (error instanceof ApiError) throw error;
    await requireBooks();
    if (items.length === 1) return [{ item: items[0]!, error }];
    const failed: { item: Item; error: unknown }[] = [];
    for (const half of chunks(items, Math.ceil(items.length / 2)))
      failed.push(...(await byHalves(half, work, requireBooks)));
    return failed;
  }
}

/** Throws unless the books answer, and where a job is to stop. */
export async function requireReady(books: Books, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (!(await books.ready())) throw new ApiError('usage_unavailable');
}
