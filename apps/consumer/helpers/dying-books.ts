import { booksProxy, type BooksProxy } from '../../../tests/helpers/books-proxy.ts';

export type DyingBooks = BooksProxy & {
  /** How many requests came since. */
  requests(): number;
  /** From its n-th request on nobody gets an answer; that one may still be done. */
  dieAt(request: number, isDone: boolean): void;
  /** Does something just before requests that contain a text are passed on. */
  before(text: string, work: () => Promise<void>): void;
};

/** A way to the ClickHouse of a URL, by which a program seems to die: what it asked last was done, or was not. */
export async function dyingBooks(to: string): Promise<DyingBooks> {
  let [requests, last, lastIsDone] = [0, Infinity, false];
  let [awaited, atOnce] = ['', async () => {}];
  const proxy = await booksProxy(to, async ({ body, answer }) => {
    requests += 1;
    const dies = requests >= last;
    if (dies && !(requests === last && lastIsDone)) {
      answer.destroy();
      return 'kept';
    }
    if (awaited !== '' && body.includes(awaited)) await atOnce();
    return dies ? 'unheard' : 'passed';
  });
  return {
    ...proxy,
    requests: () => requests,
    dieAt: (request, isDone) => void ([requests, last, lastIsDone] = [0, request, isDone]),
    before: (text, work) => void ([awaited, atOnce] = [text, work]),
  };
}
