import type { Server as HttpsServer } from 'node:https';
import type { RequestListener } from 'node:http';
import type { Config } from '../runtime/variables.ts';
import { headersFor } from './headers.ts';
import { makeHttpServer } from './http-server.ts';
import { listen } from './listen.ts';
import type { Logger } from '../runtime/log.ts';
import { makeProbeServer, type Probe } from './probes.ts';
import type { Running } from '../runtime/run.ts';
import { followTls } from './tls.ts';

/** A program that answers on its ports. */
export type Served = Running & { port: number; opsPort: number | undefined };

type Ports = Pick<Config, 'HOST' | 'PORT' | 'OPS_PORT'>;
type Serving = Ports & Pick<Config, 'MAX_CONNECTIONS' | 'TLS_CERTIFICATE_PATH' | 'TLS_KEY_PATH' | 'TLS_BY_PROXY'>;
type Limits = { headersMs: number; requestMs: number };

// Prometheus and whoever asks for health: a few connections each.
const OPS_MAX_CONNECTIONS = 200;

/**
 * Serves clients as configured: over TLS if the configuration names a certificate. With `OPS_PORT` it serves the probes there,
 * in plain HTTP.
 */
export async function serve(
  handle: RequestListener,
  probe: Probe,
  config: Serving,
  limits: Limits,
  log: Logger,
): Promise<Served> {
  const { TLS_CERTIFICATE_PATH: certificatePath, TLS_KEY_PATH: keyPath } = config;
  const tls = certificatePath === '' ? undefined : { certificatePath, keyPath };
  // First, so that a program which serves clients can be asked for its health.
  const ops = config.OPS_PORT === undefined ? undefined : await listenForProbes(probe, config);
  const server = makeHttpServer(handle, { tls, headers: headersFor(config) });
  const { port, stop } = await listen(server, {
    host: config.HOST,
    port: config.PORT,
    maxConnections: config.MAX_CONNECTIONS,
    ...limits,
  });
  const following = tls && followTls(server as unknown as HttpsServer, tls, log);
  log.info({ port, tls: tls !== undefined, opsPort: ops?.port }, 'listening');
  return {
    port,
    opsPort: ops?.port,
    async stop() {
      await Promise.all([stop(), following?.stop()]);
      await ops?.stop();
    },
  };
}

/** Serves the probes alone, on `OPS_PORT`, or on `PORT` for a program that has no other port. */
export async function serveProbes(probe: Probe, config: Ports, log: Logger): Promise<Served> {
  const { port, stop } = await listenForProbes(probe, config);
  log.info({ port }, 'listening');
  return { port, opsPort: config.OPS_PORT && port, stop };
}

function listenForProbes(probe: Probe, { HOST: host, PORT, OPS_PORT: port = PORT }: Ports) {
  return listen(makeProbeServer(probe), { host, port, maxConnections: OPS_MAX_CONNECTIONS });
}
