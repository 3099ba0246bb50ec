import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePorts } from '../../apps/stack/process/ports.ts';

/**
 * A connection to a server that can be cut, and mended again; or silenced, as by a server that vanishes and is replaced; or made
 * to hang, as by a server that does.
 */
export type Wire = { url: string; cut(): Promise<void>; mend(): Promise<void>; silence(): void; hang(): void };

/**
 * Puts a wire before the server of a URL. While it is cut, the server is unavailable to those who use the wire's URL. `tap` is
 * called for each connection, and what it gives with all bytes that the client sends there.
 */
export async function wireTo(url: string, tap?: () => (bytes: Buffer) => void): Promise<Wire> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let hangs = false;
  const server = createServer((inner) => {
    if (hangs) return void sockets.add(inner.on('error', () => inner.destroy()).resume());
    const outer = connect(Number(port), hostname);
    inner.pipe(outer).pipe(inner);
    if (tap) inner.on('data', tap());
    for (const socket of [inner, outer]) sockets.add(socket.on('error', () => socket.destroy()));
  });
  // A port that no other program is given while it is cut.
  const [own = 0] = await freePorts(1);
  await once(server.listen(own, '127.0.0.1'), 'listening');
  const wired = new URL(url);
  wired.host = `127.0.0.1:${own}`;
  const wire: Wire = {
    url: wired.href,
    async cut() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    async mend() {
      hangs = false;
      await once(server.listen(own, '127.0.0.1'), 'listening');
    },
    // Nothing passes any more on the connections of now, and none of them closes. New ones pass.
    silence() {
      for (const socket of sockets) socket.unpipe().pause();
    },
    // New ones are taken, and nothing answers there either.
    hang() {
      hangs = true;
      wire.silence();
    },
  };
  return wire;
}
