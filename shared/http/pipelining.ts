import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

// Gateways and clients wait for an answer before they send the next request on a connection. Some tools send a few ahead.
const MOST_WAITING = 16;

const waiting = new WeakMap<Socket, number>();

/**
 * Whether a connection has more requests waiting for their turn than any client sends, and is closed for it. Node hands
 * over all the requests that came at once (64 KB hold 3,000) before it looks at any other connection.
 */
export function closeIfFlooding({ socket }: IncomingMessage, response: ServerResponse): boolean {
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
