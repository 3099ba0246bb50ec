import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { atEnd } from '../../../tests/helpers/at-end.ts';

export type App = { url: string; server: Server; stop(): unknown };

/** Lets a server listen on a free port until the end of the test file. */
export async function listen(server: Server): Promise<App> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const stop = atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, stop };
}
