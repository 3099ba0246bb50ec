import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

// The rest is for clients that have authenticated, and for what arrives while places are being freed.
const SHARE_OF_STRANGERS = 0.9;
const known = new WeakSet<Socket>();

/** Remembers that whoever speaks on this connection has authenticated. */
export function knowClient(socket: Socket): void {
  known.add(socket);
}

/** Whether somebody has authenticated on this connection. */
export function isClient(socket: Socket): boolean {
  return known.has(socket);
}

/**
 * Keeps room for clients: while a server holds nearly as many connections as it may, each new one closes the connection on
 * which nobody has authenticated and nobody has asked for the longest time. So strangers can hold connections only until a
 * client needs them, however they keep them busy.
 */
export function makeRoom(server: Server, maxConnections: number): void {
  const enough = Math.floor(maxConnections * SHARE_OF_STRANGERS);
  // In the order of their last requests. An entry whose client is known by now is dropped when it is found.
  const strangers = new Map<string, { socket: Socket }>();
  let open = 0;

  server.on('connection', (socket: Socket) => {
    const place = placeOf(socket);
    const connection = { socket };
    open++;
    if (open > enough) closeOldest();
    strangers.set(place, connection);
    socket.once('close', () => {
      open--;
      if (strangers.get(place) === connection) strangers.delete(place);
    });
  });
  server.on('request', ({ socket }: IncomingMessage) => {
    if (known.has(socket)) return;
    const place = placeOf(socket);
    const connection = strangers.get(place);
    if (!connection) return;
    // Over TLS this is another object than the one that connected.
    connection.socket = socket;
    strangers.delete(place);
    strangers.set(place, connection);
  });

  function closeOldest(): void {
    for (const [place, { socket }] of strangers) {
      strangers.delete(place);
      if (known.has(socket)) continue;
      socket.destroy();
      return;
    }
  }
}

// The same for a connection and for the TLS that is spoken on it.
function placeOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
