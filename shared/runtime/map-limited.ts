/**
 * Runs `work` on every item, at most `limit` at a time, and gives the results in order. After a failure no other item is
 * begun; it is thrown once those in progress have ended.
 */
export async function mapLimited<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const oneByOne = async () => {
    while (next < items.length) {
      const at = next++;
      results[at] = await work(items[at]!);
    }
  };
  const workers = Array.from({ length: Math.min(limit, items.length) }, async () => {
    try {
      await oneByOne();
    } catch (error) {
      next = items.length;
      throw error;
    }
  });
  const ended = await Promise.allSettled(workers);
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
  return results;
}
