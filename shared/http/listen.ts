import cluster from 'node:cluster';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

// A gateway keeps its connections open for about a minute: closing them earlier than it does gives its users 502s.
const KEEP_ALIVE_MS = 75_000;
// As long as a request may take.
const DRAIN_WITHIN_MS = 10_000;
// Connections that the kernel holds until they are accepted, at most Linux's own preset: above that a client's first try is
// lost, and its kernel tries again only after a second. Gateways come back all at once.
const BACKLOG = 4_096;

type Options = {
  host: string;
  port: number;
  /** How long a client may take for the head of a request, or to begin one at all, and for the whole. */
  headersMs?: number;
  requestMs?: number;
  maxConnections?: number;
};

/** Listens; gives the port and a stop that lets requests in progress finish and then closes idle connections. */
export async function listen(server: Server, options: Options): Promise<{ port: number; stop(): Promise<void> }> {
  const { host, port, headersMs = 10_000, requestMs = 15_000, maxConnections } = options;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = headersMs;
  server.requestTimeout = requestMs;
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // Each worker has a queue of its own, which the kernel fills: a connection that a primary hands to a worker as it dies
    // would be answered by nobody, and never be closed.
    server.listen({ port, host, backlog: BACKLOG, reusePort: cluster.isWorker }, resolve);
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
