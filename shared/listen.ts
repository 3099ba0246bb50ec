import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { ApiError, errorEnvelope } from './errors.ts';
import { requestId } from './request-id.ts';

// A gateway keeps its connections open for about a minute: closing them earlier than it does gives its users 502s.
const KEEP_ALIVE_MS = 75_000;
// As long as a request may take.
const DRAIN_WITHIN_MS = 10_000;

/** Listens; gives the port and a stop that lets requests in progress finish and then closes idle connections. */
export async function listen(
  server: Server,
  host: string,
  port: number,
): Promise<{ port: number; stop(): Promise<void> }> {
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = 10_000;
  server.requestTimeout = 15_000;
  server.on('clientError', answerBadHttp);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      // From here on every answer tells its client to open a new connection, which finds another process.
      server.on('request', (_request, response) => response.setHeader('Connection', 'close'));
      server.closeIdleConnections();
      const closing = setInterval(() => server.closeIdleConnections(), 50);
      const giveUp = setTimeout(() => server.closeAllConnections(), DRAIN_WITHIN_MS);
      await closed;
      clearInterval(closing);
      clearTimeout(giveUp);
    },
  };
}

// What is not HTTP never becomes a request; its sender gets the envelope all the same.
function answerBadHttp(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const large = error.code === 'HPE_HEADER_OVERFLOW';
  const [line, name] = late
    ? (['408 Request Timeout', 'request_timeout'] as const)
    : large
      ? (['431 Request Header Fields Too Large', 'headers_too_large'] as const)
      : (['400 Bad Request', 'bad_http'] as const);
  const id = requestId(undefined);
  const text = JSON.stringify(errorEnvelope(new ApiError(name), id));
  const headers = [
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    `X-Request-Id: ${id}`,
  ];
  socket.end(`HTTP/1.1 ${line}\r\n${[...headers, 'Connection: close'].join('\r\n')}\r\n\r\n${text}`);
}
