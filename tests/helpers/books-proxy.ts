import { createServer, request as forward, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { listen } from './listen.ts';

/** A request that a program asks of ClickHouse, with the way to answer it in ClickHouse's place. Its path may be changed. */
export type Asked = { body: Buffer; path: string; answer: ServerResponse };
/** Whether a request is passed on; `unheard`: it is done, and its answer is lost; `kept`: it was answered or cut off here. */
export type Way = 'passed' | 'unheard' | 'kept';

/** Puts a proxy before the ClickHouse of a URL, which decides over each request until the end of the test file. */
export async function booksProxy(to: string, decide: (asked: Asked) => Way | Promise<Way>) {
  const { hostname, port } = new URL(to);
  const server = createServer((inner, answer) => {
    const pass = async () => {
      const body = await buffer(inner);
      const { method, headers, url = '' } = inner;
      const asked = { body, path: url, answer };
      const way = await decide(asked);
      if (way === 'kept') return;
      const outer = forward({ hostname, port, method, headers, path: asked.path }, (answered) => {
        if (way === 'unheard') {
          answered.resume().once('end', () => answer.destroy());
          return;
        }
        answer.writeHead(answered.statusCode!, answered.headers);
        answered.pipe(answer);
      });
      outer.on('error', () => answer.destroy());
      outer.end(body);
    };
    pass().catch(() => answer.destroy());
  });
  const { port: own, stop } = await listen(server);
  const url = new URL(to);
  url.host = `127.0.0.1:${own}`;
  return { url: url.href, close: stop };
}
