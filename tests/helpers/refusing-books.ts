import { booksProxy, type BooksProxy } from './books-proxy.ts';

/** A way to ClickHouse that refuses some requests. */
export type RefusingBooks = BooksProxy & { refuse(text: string | undefined): void; count(): number };

/**
 * Puts a proxy before the ClickHouse of a URL. It refuses requests that contain a text (an empty one refuses all), as a
 * server does that runs out of memory on them; `undefined` refuses none.
 */
export async function refusingBooks(to: string): Promise<RefusingBooks> {
  let refused: string | undefined;
  let count = 0;
  const proxy = await booksProxy(to, ({ body, path, answer }) => {
    if (refused === undefined || !(body.includes(refused) || decodeURIComponent(path).includes(refused)))
      return 'passed';
    count += 1;
    answer.writeHead(500, { 'x-clickhouse-exception-code': '241' });
    answer.end('Code: 241. DB::Exception: Memory limit exceeded (MEMORY_LIMIT_EXCEEDED)\n');
    return 'kept';
  });
  return { ...proxy, refuse: (text) => void (refused = text), count: () => count };
}
