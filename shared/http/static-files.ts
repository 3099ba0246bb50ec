import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { namesTag } from './headers.ts';
import type { ProbeAnswer } from './probes.ts';
import { inRounds } from './rounds.ts';

const SLICE_BYTES = 16 * 1024;
const nextRound = inRounds();

/** Answers with the file of a path; `undefined` where there is none. */
export type Files = (path: string, requestHeaders: IncomingHttpHeaders) => ProbeAnswer | undefined;
/** Answers with one file. */
export type File = (requestHeaders: IncomingHttpHeaders) => ProbeAnswer;

/**
 * A file whose content is made and compressed by the first request for it, and kept: of a program's starts, few see one. It is
 * served with these headers and a tag of its content: compressed where the client takes that, and without a body where it has the
 * file already.
 */
export function staticFile(type: string, content: () => Buffer, headers: Record<string, string>): File {
  let made: ReturnType<typeof encode> | undefined;
  return ({ 'accept-encoding': accepted, 'if-none-match': known = '' }) => {
    made ??= encode(content(), headers);
    const file = takesGzip(accepted) ? made.gzipped : made.plain;
    if (namesTag(known, file.headers.ETag)) return { status: 304, type, text: '', headers: file.headers };
    return { status: 200, type, text: file.body, headers: file.headers };
  };
}

/** The headers of a page that runs its own scripts alone, that no page can frame, and that sends forms and requests to these places. */
export function pageHeaders(forms: "'self'" | "'none'", servers: readonly string[] = []): Record<string, string> {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    ["connect-src 'self'", ...servers].join(' '),
    "img-src 'self' data:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    `form-action ${forms}`,
  ];
  return {
    'Content-Security-Policy': policy.join('; '),
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
    'X-Frame-Options': 'DENY',
  };
}

/**
 * A body as a stream: no more than some slices of it wait for a client that reads slowly. Over TLS each byte that waits is
 * a copy of its own. After the first one, slices of all bodies take turns, one in each round of the event loop: strangers who ask for
 * the largest file all at once hold up nobody else's call for longer than a slice takes.
 */
export function inSlices(body: Buffer): Readable {
  return Readable.from(slices(body), { objectMode: false, highWaterMark: SLICE_BYTES });
}

function encode(plain: Buffer, headers: Record<string, string>) {
  const gzipped = gzipSync(plain, { level: 9 });
  const tag = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
  const common = { ...headers, Vary: 'Accept-Encoding' };
  const of = (body: Buffer, etag: string) => ({ ...common, ETag: `"${etag}"`, 'Content-Length': String(body.length) });
  return {
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
