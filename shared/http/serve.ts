import type { Server as HttpsServer } from 'node:https';
import type { RequestListener } from 'node:http';
import type { Config } from '../runtime/variables.ts';
import { makeHttpServer } from './http-server.ts';
import { listen } from './listen.ts';
import type { Logger } from '../runtime/log.ts';
import { followTls } from './tls.ts';

type Served = Pick<Config, 'HOST' | 'PORT' | 'MAX_CONNECTIONS' | 'TLS_CERTIFICATE_PATH' | 'TLS_KEY_PATH'>;
type Limits = { headersMs: number; requestMs: number };

/** Serves clients as configured: over TLS if the configuration names a certificate. */
export async function serve(handle: RequestListener, config: Served, limits: Limits, log: Logger) {
  const { TLS_CERTIFICATE_PATH: certificatePath, TLS_KEY_PATH: keyPath } = config;
  const tls = certificatePath === '' ? undefined : { certificatePath, keyPath };
  const server = makeHttpServer(handle, tls);
  const { port, stop } = await listen(server, {
    host: config.HOST,
    port: config.PORT,
    maxConnections: config.MAX_CONNECTIONS,
    ...limits,
  });
  const following = tls && followTls(server as unknown as HttpsServer, tls, log);
  log.info({ port, tls: tls !== undefined }, 'listening');
  return {
    async stop() {
      await Promise.all([stop(), following?.stop()]);
    },
  };
}
