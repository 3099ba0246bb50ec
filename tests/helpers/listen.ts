import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { atEnd } from './at-end.ts';

export type App = { url: string; port: number; server: Server; stop(): unknown };

/** Lets a server listen on a free port until the end of the test file. */
export async function listen(server: Server): Promise<App> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = atEnd(() => {
    server.close();
    (server as Partial<HttpServer>).closeAllConnections?.();
  });
  return { url: `http://127.0.0.1:${port}`, port, server, stop };
}
