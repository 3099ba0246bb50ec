import { once } from 'node:events';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** A way to ClickHouse that refuses some requests. */
export type RefusingBooks = { url: string; refuse(text: string | undefined): void; count(): number; close(): void };

/**
 * Puts a proxy before the ClickHouse of a URL. It refuses requests that contain a text (an empty one refuses all), as a
 * server does that runs out of memory on them; `undefined` refuses none.
 */
export async function refusingBooks(to: string): Promise<RefusingBooks> {
  let refused: string | undefined;
  let count = 0;
  const { hostname, port } = new URL(to);
  const server = createServer((inner, answer) => {
    const pass = async () => {
      const body = await buffer(inner);
      const { method, headers, url: path = '' } = inner;
      if (refused !== undefined && (body.includes(refused) || decodeURIComponent(path).includes(refused))) {
        count += 1;
        answer.writeHead(500, { 'x-clickhouse-exception-code': '241' });
        return answer.end('Code: 241. DB::Exception: Memory limit exceeded (MEMORY_LIMIT_EXCEEDED)\n');
      }
      const outer = forward({ hostname, port, method, headers, path }, (answered) => {
        answer.writeHead(answered.statusCode!, answered.headers);
        answered.pipe(answer);
      });
      outer.on('error', () => answer.destroy());
      outer.end(body);
    };
    pass().catch(() => answer.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(to);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    refuse: (text) => void (refused = text),
    count: () => count,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
