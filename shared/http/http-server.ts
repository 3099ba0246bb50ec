import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ApiError, errorEnvelope, type ErrorName } from '../contract/errors.ts';
import { fixedHeaders, requestId, type FixedHeaders } from './headers.ts';
import { inRounds } from './rounds.ts';
import { readTls, type TlsFiles } from './tls.ts';

const MAX_HEADER_BYTES = 16 * 1024;
const HANDSHAKE_TIMEOUT_MS = 5_000;
const REFUSED_WITHIN_MS = 1_000;
// By default Node looks for connections that have exceeded a timeout every 30 s. It tells of all that it finds in one turn of the
// event loop: the fewer at once, the shorter that turn.
const TIMEOUT_CHECK_EVERY_MS = 250;
// Gateways and clients wait for an answer before they send the next request on a connection. Some tools send a few ahead.
const MOST_WAITING = 16;

/** `headers` are those of every answer; the handler sends them with its own. */
type ServerOptions = { tls?: TlsFiles | undefined; headers?: FixedHeaders };

/**
 * An HTTP server, or with a certificate an HTTPS server, that sends the error envelope also where Node would answer without
 * one: to bytes that are not HTTP, requests without Host or with several, and CONNECT. It ignores an unknown Expect, as RFC 9110 allows.
 */
export function makeHttpServer(
  handle: RequestListener,
  { tls, headers: always = fixedHeaders }: ServerOptions = {},
): Server {
  const options = {
    requireHostHeader: false,
    connectionsCheckingInterval: TIMEOUT_CHECK_EVERY_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  };
  // A refusal takes some 0.1 ms, and a stranger may have a thousand connections that are late at the same time.
  const nextRound = inRounds();
  const server: Server = tls
    ? createTlsServer({ ...options, ...readTls(tls), handshakeTimeout: HANDSHAKE_TIMEOUT_MS })
    : createServer(options);
  // A client may close its half of the connection after its request and still wants the answer; Node would end it.
  Object.assign(server, { httpAllowHalfOpen: true });
  const onRequest: RequestListener = (request, response) => {
    if (closeIfFlooding(request, response)) return;
    const target = originForm(request.url ?? '');
    const hosts = hostsOf(request);
    if (target !== undefined && (hosts === 1 || (hosts === 0 && request.httpVersion === '1.0'))) {
      request.url = target;
      return handle(request, response);
    }
    const { text, headers } = badHttp('bad_http', always);
    response.writeHead(400, headers).end(text);
  };
  server.on('request', onRequest);
  server.on('checkExpectation', onRequest);
  server.on('connect', (_request, socket) => refuse(socket, badHttp('bad_http', always)));
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
    const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    const name = late ? 'request_timeout' : error.code === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'bad_http';
    void refuseInRound(socket, name);
  });
  return server;

  async function refuseInRound(socket: Duplex, name: ErrorName): Promise<void> {
    // What comes meanwhile must not become a request, which would be answered twice.
    socket.pause();
    await nextRound();
    socket.resume();
    refuse(socket, badHttp(name, always));
  }
}

const waiting = new WeakMap<Socket, number>();

/**
 * Whether a connection has more requests waiting for their turn than any client sends, and is closed for it. Node hands
 * over all the requests that came at once (64 KB hold 3,000) before it looks at any other connection.
 */
function closeIfFlooding({ socket }: IncomingMessage, response: ServerResponse): boolean {
  // Closed, or refused already: nobody would take an answer.
  if (socket.destroyed || socket.writableEnded) return true;
  // A response has its socket as soon as it is its turn: only those that wait are counted.
  if (response.socket !== null) return false;
  const before = waiting.get(socket) ?? 0;
  if (before >= MOST_WAITING) {
    socket.destroy();
    return true;
  }
  waiting.set(socket, before + 1);
  response.once('close', () => waiting.set(socket, waiting.get(socket)! - 1));
  return false;
}

// Servers before and behind each other may take another one of several (RFC 9112, 3.2).
function hostsOf({ rawHeaders }: IncomingMessage): number {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (/^host$/i.test(rawHeaders[i]!)) hosts += 1;
  return hosts;
}

// Path and query of a request target. RFC 9112 has servers accept the absolute form too, which clients send to proxies.
// `undefined`: not a request target; it has a fragment, for example.
function originForm(target: string): string | undefined {
  if (target.includes('#')) return undefined;
  if (target.startsWith('/') || target === '*') return target;
  if (!URL.canParse(target)) return undefined;
  // As it was sent: URL would resolve its dot segments, which the gateway endpoint refuses.
  const path = /^[^/]*\/\/[^/?]*(.*)$/s.exec(target)?.[1] ?? '';
  return path.startsWith('/') ? path : `/${path}`;
}

// Bytes that never became a request have no response object: write to the socket. Node has let go of it: nobody else hears
// of its errors, or closes it where the client never takes the answer, as before the end of a TLS handshake.
function refuse(socket: Duplex, { status, text, headers }: ReturnType<typeof badHttp>): void {
  const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}\r\n`);
  const closing = setTimeout(() => socket.destroy(), REFUSED_WITHIN_MS);
  socket.on('error', () => {}).once('close', () => clearTimeout(closing));
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`);
}

function badHttp(name: ErrorName, always: FixedHeaders) {
  const error = new ApiError(name);
  const id = requestId(undefined);
  const text = JSON.stringify(errorEnvelope(error, id));
  const headers = {
    ...always,
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(text)),
    'X-Request-Id': id,
    Connection: 'close',
  };
  return { status: error.status, text, headers };
}
