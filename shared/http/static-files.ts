import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { namesTag } from './headers.ts';
import type { ProbeAnswer } from './probes.ts';
import { inRounds } from './rounds.ts';

const SLICE_BYTES = 16 * 1024;
const nextRound = inRounds();

type Encoded = { body: Buffer; headers: Record<string, string> };
/** A file as it is served, as it is and compressed. */
export type StaticFile = { type: string; plain: Encoded; gzipped: Encoded };

/**
 * A file whose content is made and compressed by the first request for it, and kept: of a program's starts, few see one. It is served
 * with these headers and a tag of its content.
 */
export function staticFile(type: string, content: () => Buffer, headers: Record<string, string>): () => StaticFile {
  let file: StaticFile | undefined;
  return () => (file ??= encode(type, content(), headers));
}

/** Answers with a file: compressed where the client takes that, and without a body where it has the file already. */
export function answerFile(file: StaticFile, requestHeaders: IncomingHttpHeaders): ProbeAnswer {
  const { 'accept-encoding': accepted, 'if-none-match': known } = requestHeaders;
  const { body, headers } = takesGzip(accepted) ? file.gzipped : file.plain;
  const isKnown = known !== undefined && namesTag(known, headers['ETag']!);
  return isKnown
    ? { status: 304, type: file.type, text: '', headers }
    : { status: 200, type: file.type, text: body, headers };
}

/**
 * A body as a stream: no more than some slices of it wait for a client that reads slowly. Over TLS each byte that waits is
 * a copy of its own. After the first one, slices of all bodies take turns, one in each round of the event loop: strangers who ask for
 * the largest file all at once hold up nobody else's call for longer than a slice takes.
 */
export function inSlices(body: Buffer): Readable {
  return Readable.from(slices(body), { objectMode: false, highWaterMark: SLICE_BYTES });
}

function encode(type: string, plain: Buffer, headers: Record<string, string>): StaticFile {
  const gzipped = gzipSync(plain, { level: 9 });
  const tag = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
  const common = { ...headers, Vary: 'Accept-Encoding' };
  const of = (body: Buffer, etag: string) => ({ ...common, ETag: `"${etag}"`, 'Content-Length': String(body.length) });
  return {
    type,
    plain: { body: plain, headers: of(plain, tag) },
    gzipped: { body: gzipped, headers: { ...of(gzipped, `${tag}-gzip`), 'Content-Encoding': 'gzip' } },
  };
}

function takesGzip(accepted = ''): boolean {
  return accepted.split(',').some((one) => {
    const [coding = '', quality = ''] = one.split(';', 2);
    return coding.trim().toLowerCase() === 'gzip' && !/^\s*q=0(\.0*)?\s*$/i.test(quality);
  });
}

async function* slices(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += SLICE_BYTES) {
    if (at > 0) await nextRound();
    yield body.subarray(at, at + SLICE_BYTES);
  }
}
