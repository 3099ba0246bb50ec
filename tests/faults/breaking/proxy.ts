import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import type { Random } from '../../helpers/random.ts';

/** What a proxy does to the bytes that pass it. */
export type Condition =
  | { kind: 'healthy' }
  /** Bytes arrive later, in order; the delay is for each direction. */
  | { kind: 'slow'; delayMs: number }
  /** Open connections are cut, new ones are refused. */
  | { kind: 'cut' }
  /** Connections stay open and are accepted, but nothing passes: a peer that vanished without closing. */
  | { kind: 'black-hole' }
  /** This share of the answers is lost: the request was executed, then the connection is cut. */
  | { kind: 'lossy'; share: number; random: Random };

export const HEALTHY: Condition = { kind: 'healthy' };

/** A TCP proxy between two processes. */
export type Proxy = {
  name: string;
  port: number;
  /** Changes the condition, of open connections too. */
  set(condition: Condition): void;
  /** Settles when a matching request is on its way, before any of it arrives; or after `withinMs` without one. */
  sees(pattern: RegExp, withinMs: number): Promise<void>;
  close(): Promise<void>;
};

/** Opens a proxy to a port of this machine; `port` 0 takes a free one. */
export async function openProxy(name: string, target: number, port = 0): Promise<Proxy> {
  const state: State = {
    condition: HEALTHY,
    changed: Promise.withResolvers(),
    watchers: new Set(),
    sockets: new Set(),
  };
  const server = createServer((client) => accept(client, target, state));
  await once(server.listen(port, '127.0.0.1'), 'listening');

  return {
    name,
    port: (server.address() as AddressInfo).port,
    set(condition) {
      state.condition = condition;
      state.changed.resolve();
      state.changed = Promise.withResolvers();
      if (condition.kind === 'cut') for (const socket of state.sockets) socket.destroy();
    },
    async sees(pattern, withinMs) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const watch = (request: string) => pattern.test(request) && resolve();
      state.watchers.add(watch);
      await withTimeout(systemClock, withinMs, promise).catch(() => {});
      state.watchers.delete(watch);
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of state.sockets) socket.destroy();
      state.changed.resolve();
      await closed;
    },
  };
}

/** What all connections of a proxy share. */
type State = {
  condition: Condition;
  /** Resolved at the next change of the condition. */
  changed: PromiseWithResolvers<void>;
  /** See each request before it goes on. */
  watchers: Set<(request: string) => void>;
  sockets: Set<Socket>;
};

function accept(client: Socket, target: number, state: State): void {
  if (state.condition.kind === 'cut') return void client.resetAndDestroy();
  const server = connect(target, '127.0.0.1');
  const end = () => {
    for (const socket of [client, server]) socket.destroy();
  };
  for (const socket of [client, server]) {
    socket.setNoDelay(true);
    state.sockets.add(socket);
    socket.on('error', end).on('close', () => state.sockets.delete(socket));
  }
  void forward({ from: client, to: server, isAnswer: false }, state).finally(end);
  void forward({ from: server, to: client, isAnswer: true }, state).finally(end);
}

type Direction = { from: Socket; to: Socket; isAnswer: boolean };

async function forward({ from, to, isAnswer }: Direction, state: State): Promise<void> {
  // Delayed bytes stay in order: each piece waits for the one before it, and until its own delay is over.
  let before = Promise.resolve();
  for await (const piece of pieces(from)) {
    const { condition, watchers } = state;
    if (!isAnswer && watchers.size > 0) for (const watch of watchers) watch(piece.toString('latin1'));
    if (isAnswer && condition.kind === 'lossy' && condition.random.chance(condition.share)) return;
    const due = performance.now() + (condition.kind === 'slow' ? condition.delayMs : 0);
    before = before.then(() => deliver(piece, to, due, state));
  }
  await before;
}

async function deliver(piece: Buffer, to: Socket, due: number, state: State): Promise<void> {
  while (state.condition.kind === 'black-hole') {
    await state.changed.promise;
    if (to.destroyed) return;
  }
  const waitMs = due - performance.now();
  if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
  if (to.destroyed || to.write(piece)) return;
  await Promise.race([once(to, 'drain'), once(to, 'close')]).catch(() => {});
}

/** The pieces that a socket receives; none after it was cut, since `end` cuts the other side as well. */
async function* pieces(from: Socket): AsyncGenerator<Buffer> {
  try {
    yield* from as AsyncIterable<Buffer>;
  } catch {}
}
