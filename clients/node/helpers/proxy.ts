import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/**
 * What happens to a request: `lose` forwards it and drops the answer, `hang` forwards it and never answers, `hold` forwards it
 * once `release` is called; to `page` and `empty` something else answers with 200.
 */
export type Fate = 'pass' | 'lose' | 'hang' | 'hold' | 'refuse' | 'redirect' | 'html' | 'page' | 'empty';

/** A proxy before a server that can lose, delay or refuse chosen requests; the others pass. */
export async function makeProxy(target: string) {
  const fates: Fate[] = [];
  const seen: IncomingMessage[] = [];
  const held: (() => void)[] = [];
  const server = createServer((request, response) => {
    seen.push(request);
    // A client may give up in the middle of its own request.
    answer(request, response, fates.shift() ?? proxy.fate).catch(() => response.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const proxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** For requests without a fate of their own. */
    fate: 'pass' as Fate,
    /** Sets what happens to the next requests, and forgets the requests seen. */
    next(...some: Fate[]) {
      fates.splice(0, Infinity, ...some);
      seen.length = 0;
    },
    seen,
    /** Lets the requests pass that are held, and those that follow. */
    release() {
      proxy.fate = 'pass';
      for (const release of held.splice(0)) release();
    },
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
  return proxy;

  async function answer(request: IncomingMessage, response: ServerResponse, fate: Fate): Promise<unknown> {
    const body = await buffer(request);
    if (fate === 'refuse') return request.socket.destroy();
    if (fate === 'redirect') return response.writeHead(307, { Location: 'http://127.0.0.1:1/' }).end();
    if (fate === 'hold') await new Promise<void>((release) => held.push(release));
    if (fate === 'html') return response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>Bad Gateway</h1>');
    if (fate === 'page') return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<h1>Welcome</h1>');
    if (fate === 'empty') return response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
    const { host: _, connection: __, ...headers } = request.headers;
    const answer = await fetch(target + request.url, {
      method: request.method!,
      headers: headers as Record<string, string>,
      ...(body.length > 0 && { body }),
    });
    const text = await answer.text();
    if (fate === 'hang') return undefined;
    if (fate === 'lose') return request.socket.destroy();
    return response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(text);
  }
}
export type Proxy = Awaited<ReturnType<typeof makeProxy>>;
