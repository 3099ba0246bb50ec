import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import type { Random } from '../random.ts';

/** What the way between two processes does to what passes it. */
export type Weather =
  | { kind: 'fair' }
  /** Everything arrives later, in order; so long each way. */
  | { kind: 'slow'; delayMs: number }
  /** Connections are cut and new ones refused. */
  | { kind: 'cut' }
  /** Connections stay, and are taken, but nothing passes: a peer that vanished without closing. */
  | { kind: 'hole' }
  /** Of so large a share of the answers nothing arrives: the request was executed, then the connection is cut. */
  | { kind: 'deaf'; share: number; random: Random };

/** A TCP proxy on the way from one process to another. */
export type Hop = {
  name: string;
  port: number;
  /** Changes the weather, for connections that are open too. */
  set(weather: Weather): void;
  /** Settles when a request that matches is on its way, before any of it arrives; or after so long without one. */
  sees(pattern: RegExp, withinMs: number): Promise<void>;
  close(): Promise<void>;
};

const FAIR: Weather = { kind: 'fair' };

/** Opens a way to a port of this machine; `port` 0 takes a free one. */
export async function openHop(name: string, target: number, port = 0): Promise<Hop> {
  const sockets = new Set<Socket>();
  let weather: Weather = FAIR;
  let healed = Promise.withResolvers<void>();
  const watchers = new Set<(request: string) => void>();

  const server: Server = createServer((inner) => {
    if (weather.kind === 'cut') return void inner.resetAndDestroy();
    const outer = connect(target, '127.0.0.1');
    const end = () => {
      for (const socket of [inner, outer]) socket.destroy();
    };
    for (const socket of [inner, outer]) {
      socket.setNoDelay(true);
      sockets.add(socket);
      socket.on('error', end).on('close', () => sockets.delete(socket));
    }
    void carry(inner, outer, false).finally(end);
    void carry(outer, inner, true).finally(end);
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');

  return {
    name,
    port: (server.address() as AddressInfo).port,
    set(next) {
      weather = next;
      healed.resolve();
      healed = Promise.withResolvers();
      if (next.kind === 'cut') for (const socket of sockets) socket.destroy();
    },
    async sees(pattern, withinMs) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const watch = (request: string) => pattern.test(request) && resolve();
      watchers.add(watch);
      await withTimeout(withinMs, promise).catch(() => {});
      watchers.delete(watch);
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      healed.resolve();
      await closed;
    },
  };

  async function carry(from: Socket, to: Socket, isAnswer: boolean): Promise<void> {
    // What was held up arrives in order: each piece waits for the one before it, and so long after its own arrival.
    let before = Promise.resolve();
    for await (const piece of pieces(from)) {
      if (!isAnswer && watchers.size > 0) for (const watch of watchers) watch(piece.toString('latin1'));
      if (isAnswer && weather.kind === 'deaf' && weather.random.chance(weather.share)) return;
      const due = performance.now() + (weather.kind === 'slow' ? weather.delayMs : 0);
      before = before.then(() => deliver(piece, to, due));
    }
    await before;
  }

  async function deliver(piece: Buffer, to: Socket, due: number): Promise<void> {
    while (weather.kind === 'hole') {
      await healed.promise;
      if (to.destroyed) return;
    }
    const waitMs = due - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    if (to.destroyed || to.write(piece)) return;
    await Promise.race([once(to, 'drain'), once(to, 'close')]).catch(() => {});
  }
}

// A connection that is cut ends what it carried.
async function* pieces(from: Socket): AsyncGenerator<Buffer> {
  try {
    yield* from as AsyncIterable<Buffer>;
  } catch {
    // The other side is told by being cut as well.
  }
}
