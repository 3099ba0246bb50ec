import type { HttpAnswer, Transport } from './transport.ts';

// What is used of Node, whose types the client does not need.
type Socket = { on(event: string, listener: (value: never) => void): Socket };
type Incoming = Socket & {
  statusCode: number;
  complete: boolean;
  headers: Record<string, string | undefined>;
  setEncoding(encoding: string): void;
};
type Outgoing = Socket & { end(body?: string): void; destroy(): void };
type Http = {
  Agent: new (options: object) => object;
  request(options: object): Outgoing;
};
type Runtime = {
  process?: { versions?: Record<string, string | undefined>; getBuiltinModule?(name: string): Http | undefined };
  navigator?: { userAgent?: string };
};
type Target = { http: Http; agent: object; options: object };

// More requests wait in the agent, and have their deadlines there too.
const MOST_CONNECTIONS = 256;

/**
 * Sends by Node's own HTTP over connections that are kept, which costs a third of `fetch`. `undefined` on another runtime, and
 * on Node before 20.16, which has no way to load a module at once that bundlers for other runtimes ignore.
 */
export function nodeTransport(): Transport | undefined {
  const { process, navigator } = globalThis as Runtime;
  const versions = process?.versions;
  if (!versions?.['node'] || versions['bun'] || versions['deno'] || navigator?.userAgent === 'Cloudflare-Workers')
    return undefined;
  const [http, https] = ['node:http', 'node:https'].map((name) => process?.getBuiltinModule?.(name));
  if (!http || !https) return undefined;
  const targetOf = makeTargetOf(http, https);

  return ({ method, url, headers, body }) => {
    const { http, agent, options } = targetOf(url);
    const request = http.request({ ...options, method, headers, agent });
    const answer = new Promise<HttpAnswer>((resolve, reject) => {
      request.on('response', (response: Incoming) => read(response, resolve, reject));
      request.on('error', reject);
    });
    request.end(body);
    return { answer, cancel: () => request.destroy() };
  };
}

/** Finds the parts of a URL. Most requests have that of the one before. */
function makeTargetOf(http: Http, https: Http): (url: string) => Target {
  const agents = [http, https].map(({ Agent }) => new Agent({ keepAlive: true, maxSockets: MOST_CONNECTIONS }));
  let known: Target | undefined;
  let knownUrl = '';
  return (url) => {
    if (known && url === knownUrl) return known;
    const { protocol, hostname, port, pathname, search } = new URL(url);
    const isSecure = protocol === 'https:';
    known = {
      http: isSecure ? https : http,
      agent: agents[isSecure ? 1 : 0]!,
      // An IPv6 address has brackets in a URL alone.
      options: { host: hostname.replace(/^\[|\]$/g, ''), path: pathname + search, ...(port && { port }) },
    };
    knownUrl = url;
    return known;
  };
}

function read(response: Incoming, resolve: (answer: HttpAnswer) => void, reject: (error: unknown) => void): void {
  let text = '';
  response.setEncoding('utf8');
  response.on('data', (piece: string) => (text += piece));
  response.on('error', reject);
  response.on('end', () => {
    if (!response.complete) return reject(new Error('the answer was cut short'));
    resolve({ status: response.statusCode, headers: { get: (name) => response.headers[name] }, text });
  });
}
