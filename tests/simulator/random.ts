import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';

/** Numbers that follow from a seed. */
export type Random = {
  /** From 0 up to 1. */
  next(): number;
  /** A whole number below another. */
  below(end: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** One of these names, each as often as its weight says. */
  weighted(weights: Readonly<Record<string, number>>): string;
  /** Begins anew from another seed: what comes then does not depend on what was drawn before. */
  reseed(seed: number): void;
};

// What the driver of Postgres draws where it opens a connection, whenever that is.
const LOGIN_BYTES = 18;
const { randomBytes } = crypto;
let filled = 0;

const turn = timersPromises.setImmediate;
const waiting = new Set<NodeJS.Immediate>();

/** Settles when nobody waits for a turn of the event loop. */
export async function turnsGiven(): Promise<void> {
  do await turn();
  while (waiting.size > 0);
}

/** Uses up what was drawn ahead from another seed: `draw` is called until it draws anew. */
export function drawAnew(draw: () => void): void {
  for (const before = filled; filled === before;) draw();
}

/** The generator sfc32 of PractRand. */
export function makeRandom(seed: number): Random {
  let [a, b, c, counter] = [0, 0, 0, 0];
  const next = () => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  };
  const reseed = (from: number) => {
    [a, b, c, counter] = [0x9e3779b9, 0x243f6a88, from | 0, 1];
    for (let i = 0; i < 12; i++) next();
  };
  const below = (end: number) => Math.floor(next() * end);
  reseed(seed);
  return {
    next,
    below,
    chance: (probability) => next() < probability,
    pick: (list) => list[below(list.length)]!,
    weighted(weights) {
      let at = next() * Object.values(weights).reduce((sum, weight) => sum + weight, 0);
      return Object.keys(weights).find((name) => (at -= weights[name]!) < 0)!;
    },
    reseed,
  };
}

/**
 * Makes all that the programs draw from the system follow from a seed too: ids, secrets, and the time that is in an id; and counts
 * who waits for a turn of the event loop. Called before any of the product is imported.
 */
export function drawFrom(source: () => { random: Random; nowMs: number }): void {
  const fill = <Bytes extends NodeJS.ArrayBufferView>(bytes: Bytes): Bytes => {
    const view = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const { random } = source();
    for (let i = 0; i < view.length; i++) view[i] = random.below(256);
    return bytes;
  };
  const uuid = () => {
    const hex = fill(Buffer.alloc(16)).toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
  };
  Object.assign(crypto, {
    randomFillSync: (bytes: NodeJS.ArrayBufferView) => {
      filled += 1;
      return fill(bytes);
    },
    randomBytes: (size: number) => (size === LOGIN_BYTES ? randomBytes(size) : fill(Buffer.alloc(size))),
    randomInt: (from: number, to?: number) =>
      to === undefined ? source().random.below(from) : from + source().random.below(to - from),
    randomUUID: uuid,
  });
  const { setImmediate, clearImmediate } = timers;
  const countedImmediate = <Args extends unknown[]>(work: (...args: Args) => void, ...args: Args) => {
    const immediate = setImmediate(() => {
      waiting.delete(immediate);
      work(...args);
    });
    waiting.add(immediate);
    return immediate;
  };
  const counted = {
    setImmediate: countedImmediate,
    clearImmediate(immediate: NodeJS.Immediate) {
      waiting.delete(immediate);
      clearImmediate(immediate);
    },
  };
  Object.assign(timers, counted);
  Object.assign(globalThis, counted);
  timersPromises.setImmediate = <T>(value?: T) => new Promise<T>((resolve) => countedImmediate(resolve, value as T));
  syncBuiltinESMExports();
  Date.now = () => source().nowMs;
}
