import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as ask, Agent, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { start, untilReady, type Program } from '../../../apps/stack/process/program.ts';
import { atEnd } from '../../helpers/at-end.ts';
import { listen } from '../../helpers/listen.ts';

/** A request as the API behind a gateway receives it. */
export type Reached = { method: string; url: string; headers: IncomingHttpHeaders; bytes: number };
export type Answered = { status: number; headers: IncomingHttpHeaders; text: string };
type Sent = { method?: string; headers?: Record<string, string | string[]>; body?: string; chunked?: boolean };

/** Says how to start a gateway; `write` puts a file of its example into a folder, with the test's addresses in it. */
export type BeginGateway = (write: (file: string, content: string) => string) => { command: string; args: string[] };

// The end client needs another address than the gateway, which is a trusted proxy. All of 127.0.0.0/8 is this machine.
export const END_CLIENT = '127.0.0.2';

/** A file of the examples in deploy/gateways. */
export function example(file: string): string {
  return readFileSync(new URL(`../../../deploy/gateways/${file}`, import.meta.url), 'utf8');
}

/** A small API that keeps every request that it receives. */
export async function startApi() {
  const reached: Reached[] = [];
  const answering = { cost: undefined as string | undefined, never: false };
  const server = createServer((request, response) => {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => (bytes += chunk.length));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      reached.push({ method, url, headers, bytes });
      if (answering.never) return request.socket.destroy();
      if (answering.cost !== undefined) response.setHeader('X-Keytally-Cost', answering.cost);
      return response.end('reached');
    });
  });
  server.keepAliveTimeout = 60_000;
  const { port } = await listen(server);
  return {
    port,
    reached,
    /** What it says that its requests did cost, nothing where it is undefined; or that it never answers. */
    answering,
  };
}

// A busy machine needs more than the second of the examples.
const TIMEOUT = '30s';

type Addresses = {
  verifyUrl: string;
  apiPort: number;
  token: string;
  /** How long the gateway waits for verify. */
  timeout?: string;
};

/** Starts a gateway with an example in which only the addresses, the token and the timeouts are replaced. */
export async function startGateway(name: string, folder: string, begin: BeginGateway, to: Addresses) {
  const [port = 0] = await freePorts(1);
  const own = join(folder, `${name}-${port}`);
  mkdirSync(own, { recursive: true });
  const write = (file: string, content: string) => {
    const path = join(own, file);
    writeFileSync(path, filled(content, port, to));
    return path;
  };
  const program: Program = {
    name,
    port,
    ...begin(write),
    env: { PATH: process.env.PATH, HOME: own, TEST_FOLDER: process.env.TEST_FOLDER },
    isReady: () => reaches(port),
    stopWithinMs: 5_000,
  };
  const log = join(own, 'log');
  const started = await start(program, log);
  await untilReady(program, started, log);
  const agent = new Agent({ keepAlive: true, maxSockets: 32, localAddress: END_CLIENT });
  atEnd(async () => {
    agent.destroy();
    // It leads a process group of its own: this ends its workers too.
    process.kill(-started.pid, 'SIGKILL');
    await started.ended;
  });
  return { send: (path: string, sent: Sent = {}) => send(agent, port, path, sent) };
}

function filled(content: string, port: number, { verifyUrl, apiPort, token, timeout = TIMEOUT }: Addresses): string {
  const verifyPort = new URL(verifyUrl).port;
  return content
    .replaceAll(/\b8000\b/g, String(port))
    .replaceAll(/(127\.0\.0\.1:|port_value: )8081\b/g, `$1${verifyPort}`)
    .replaceAll(/(127\.0\.0\.1:|port_value: )3000\b/g, `$1${apiPort}`)
    .replaceAll('kt_YOUR_TOKEN', token)
    .replaceAll(/\b1s\b/g, timeout);
}

async function send(agent: Agent, port: number, path: string, sent: Sent): Promise<Answered> {
  const { method = 'GET', headers = {}, body, chunked } = sent;
  const length = body === undefined || chunked ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
  const request = ask({ host: '127.0.0.1', port, path, method, agent, headers: { ...headers, ...length } });
  const answer = once(request, 'response') as Promise<[IncomingMessage]>;
  // A gateway may refuse a request and close the connection before it has read the whole body.
  request.on('error', () => {});
  request.end(body);
  const [response] = await answer;
  return { status: response.statusCode ?? 0, headers: response.headers, text: await text(response) };
}

async function reaches(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
