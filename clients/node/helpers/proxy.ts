import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { listen } from '../../../tests/helpers/listen.ts';

/**
 * What happens to a request: `lose` forwards it and drops the answer, `hang` forwards it and never answers, `hold` forwards it
 * once `release` is called; to `page` and `empty` something else answers with 200. A number is a code: all but what is read is
 * answered with that error of keytally. An object is the answer itself: a page where its body is text, else JSON.
 */
export type Fate =
  | 'pass'
  | 'lose'
  | 'hang'
  | 'hold'
  | 'refuse'
  | 'redirect'
  | 'html'
  | 'page'
  | 'empty'
  | number
  | { status?: number; headers?: Record<string, string>; body: unknown };

type Seen = IncomingMessage & { body: string };

/** A proxy before a server that can lose, delay or refuse chosen requests; the others pass. */
export async function makeProxy(target: string) {
  const fates: Fate[] = [];
  const seen: Seen[] = [];
  let gate = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    seen.push(request as Seen);
    // Cancels and probes come in the background, also of an earlier test: none takes the fate of the next request.
    const own = /\/(cancel|servingz)$/.test(request.url!) ? undefined : fates.shift();
    // A client may give up in the middle of its own request.
    answer(request, response, own ?? proxy.fate, gate.promise).catch(() => response.destroy());
  });
  const { url, stop } = await listen(server);
  const proxy = {
    url,
    stop,
    server,
    /** For requests without a fate of their own. */
    fate: 'pass' as Fate,
    /** Sets what happens to the next requests, and forgets the requests seen. */
    next(...some: Fate[]) {
      fates.splice(0, Infinity, ...some);
      seen.length = 0;
      gate = Promise.withResolvers();
    },
    seen,
    /** Lets the requests pass that are held, and those that follow. */
    release() {
      proxy.fate = 'pass';
      gate.resolve();
    },
  };
  return proxy;

  async function answer(
    request: IncomingMessage,
    response: ServerResponse,
    fate: Fate,
    released: Promise<void>,
  ): Promise<unknown> {
    const body = await text(request);
    Object.assign(request, { body });
    if (fate === 'refuse') return request.socket.destroy();
    if (fate === 'redirect') return response.writeHead(307, { Location: 'http://127.0.0.1:1/' }).end();
    if (fate === 'hold') await released;
    if (fate === 'html') return response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>Bad Gateway</h1>');
    if (fate === 'page') return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<h1>Welcome</h1>');
    if (fate === 'empty') return response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
    if (typeof fate === 'number' && request.method !== 'GET')
      return response.writeHead(Math.floor(fate / 100)).end(JSON.stringify({ error: { code: fate, message: 'no' } }));
    if (typeof fate === 'object')
      return response
        .writeHead(fate.status ?? 200, fate.headers)
        .end(typeof fate.body === 'string' ? fate.body : JSON.stringify(fate.body));
    const { host: _, connection: __, ...headers } = request.headers;
    const answer = await fetch(target + request.url, {
      method: request.method!,
      headers: headers as Record<string, string>,
      ...(body && { body }),
    });
    const answered = await answer.text();
    if (fate === 'hang') return undefined;
    if (fate === 'lose') return request.socket.destroy();
    return response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(answered);
  }
}
export type Proxy = Awaited<ReturnType<typeof makeProxy>>;
