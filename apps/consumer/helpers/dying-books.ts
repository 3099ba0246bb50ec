import { once } from 'node:events';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export type DyingBooks = {
  url: string;
  /** How many requests came since. */
  requests(): number;
  /** From its n-th request on nobody gets an answer; that one may still be done. */
  dieAt(request: number, isDone: boolean): void;
  /** Does something just before requests that contain a text are passed on. */
  before(text: string, work: () => Promise<void>): void;
  close(): void;
};

/** A way to the ClickHouse of a URL, by which a program seems to die: what it asked last was done, or was not. */
export async function dyingBooks(to: string): Promise<DyingBooks> {
  const { hostname, port } = new URL(to);
  let [requests, last, lastIsDone] = [0, Infinity, false];
  let [awaited, atOnce] = ['', async () => {}];
  const server = createServer((inner, answer) => {
    const pass = async () => {
      const body = await buffer(inner);
      requests += 1;
      const dies = requests >= last;
      if (dies && !(requests === last && lastIsDone)) return void answer.destroy();
      if (awaited !== '' && body.includes(awaited)) await atOnce();
      const { method, headers, url: path = '' } = inner;
      const outer = forward({ hostname, port, method, headers, path }, (answered) => {
        if (dies) {
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
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(to);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    requests: () => requests,
    dieAt: (request, isDone) => void ([requests, last, lastIsDone] = [0, request, isDone]),
    before: (text, work) => void ([awaited, atOnce] = [text, work]),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
