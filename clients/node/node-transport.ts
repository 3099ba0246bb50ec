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
  /** Of `node:url`. */
  urlToHttpOptions(url: URL): object;
};
type Runtime = {
  process?: { versions?: Record<string, string | undefined>; getBuiltinModule?(name: string): Http | undefined };
  navigator?: { userAgent?: string };
};

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
  const [http, https, urls] = ['http', 'https', 'url'].map((name) => process?.getBuiltinModule?.(`node:${name}`));
  if (!http || !https || !urls) return undefined;
  const [plain, secure] = [http, https].map(({ Agent, request }) => {
    return { request, agent: new Agent({ keepAlive: true, maxSockets: MOST_CONNECTIONS }) };
  });
  // Most requests have the URL of the one before.
  let known = { url: '', ...plain!, options: {} };

  return ({ method, url, headers, body }) => {
    if (url !== known.url) {
      const sender = url.startsWith('https:') ? secure! : plain!;
      known = { url, ...sender, options: urls.urlToHttpOptions(new URL(url)) };
    }
    const { agent, options } = known;
    const request = known.request({ ...options, method, headers, agent });
    const answer = new Promise<HttpAnswer>((resolve, reject) => {
      request.on('response', (response: Incoming) => read(response, resolve, reject));
      request.on('error', reject);
    });
    request.end(body);
    return { answer, cancel: () => request.destroy() };
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
