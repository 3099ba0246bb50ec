import { Readable } from 'node:stream';

const SLICE_BYTES = 16 * 1024;

/**
 * A body as a stream: no more than some slices of it wait for a client that reads slowly. Over TLS each byte that waits is
 * a copy of its own.
 */
export function inSlices(body: Buffer): Readable {
  return Readable.from(slices(body), { objectMode: false, highWaterMark: SLICE_BYTES });
}

function* slices(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; at += SLICE_BYTES) yield body.subarray(at, at + SLICE_BYTES);
}
