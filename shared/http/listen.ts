import cluster from 'node:cluster';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { makeRoom } from './strangers.ts';

// A gateway keeps its connections open for about a minute. Closing them before it does gives its users 502s.
const KEEP_ALIVE_MS = 75_000;
// A client that does not read its answer must not hold its connection for ever.
const STALLED_MS = 120_000;
// As long as a request may take.
const DRAIN_TIMEOUT_MS = 10_000;
// Connections that the kernel holds until they are accepted; this is Linux's default upper limit. When the queue is full, the
// kernel drops a client's first attempt, and the client repeats it only after a second. Gateways reconnect all at once.
const BACKLOG = 4_096;

type Options = {
  host: string;
  port: number;
  /** How long a client may take to begin a request and send its head. */
  headersMs?: number;
  /** How long it may take to send the whole request. */
  requestMs?: number;
  /** How long nothing may move on a connection with a request or an answer on its way. */
  stalledMs?: number;
  maxConnections?: number;
};

/** Listens. Answers the port, and a stop that lets requests in progress finish and closes idle connections. */
export async function listen(server: Server, options: Options): Promise<{ port: number; stop(): Promise<void> }> {
  const { host, port, headersMs = 10_000, requestMs = 15_000, stalledMs = STALLED_MS, maxConnections } = options;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = headersMs;
  server.requestTimeout = requestMs;
  server.timeout = stalledMs;
  if (maxConnections !== undefined) {
    server.maxConnections = maxConnections;
    makeRoom(server, maxConnections);
  }
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // Each worker has its own queue, filled by the kernel. If the primary handed out connections, nobody would answer or
    // close one that it hands to a dying worker.
    server.listen({ port, host, backlog: BACKLOG, reusePort: cluster.isWorker }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      // From now on every answer tells its client to open a new connection, which another process accepts. Before the handler,
      // which may send its answer at once.
      server.prependListener('request', (_request, response) => response.setHeader('Connection', 'close'));
      server.closeIdleConnections();
      const closing = setInterval(() => server.closeIdleConnections(), 50);
      const giveUp = setTimeout(() => server.closeAllConnections(), DRAIN_TIMEOUT_MS);
      await closed;
      clearInterval(closing);
      clearTimeout(giveUp);
    },
  };
}
