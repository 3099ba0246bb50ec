import { Readable } from 'node:stream';

const SLICE_BYTES = 16 * 1024;

/**
 * A body as a stream: no more than some slices of it wait for a client that reads slowly. Over TLS each byte that waits is
 * a copy of its own. After the first one, slices of all bodies take turns, one in each round of the event loop: strangers who ask for
 * the largest file all at once hold up nobody else's call for longer than a slice takes.
 */
export function inSlices(body: Buffer): Readable {
  return Readable.from(slices(body), { objectMode: false, highWaterMark: SLICE_BYTES });
}

async function* slices(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += SLICE_BYTES) {
    if (at > 0) await nextTurn();
    yield body.subarray(at, at + SLICE_BYTES);
  }
}

let lastTurn = Promise.resolve();

function nextTurn(): Promise<void> {
  return (lastTurn = lastTurn.then(() => new Promise((resolve) => setImmediate(resolve))));
}
