import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { ApiError } from '../contract/errors.ts';

const BYTE_ORDER_MARK = '\ufeff';

/** Reads a request's JSON body of at most `limit` bytes; undefined when there is none. */
export async function readJson(request: IncomingMessage, limit: number): Promise<unknown> {
  if (!hasJsonBody(request.headers, limit)) return undefined;
  return parseJson(await readAll(request, limit));
}

/** Whether a request announces a body; throws when its type, its encoding or its announced length is refused. */
export function hasJsonBody(headers: IncomingHttpHeaders, limit: number): boolean {
  const announced = Number(headers['content-length'] ?? 0);
  if (announced === 0 && headers['transfer-encoding'] === undefined) return false;
  if (!isJson(headers['content-type'])) throw new ApiError('not_json');
  const encoding = headers['content-encoding']?.trim().toLowerCase() || 'identity';
  if (encoding !== 'identity') throw new ApiError('encoded_body', { headers: { 'Accept-Encoding': 'identity' } });
  if (announced > limit) throw bodyTooLarge(limit);
  return true;
}

/** The JSON value of a body's bytes; undefined when there are none. */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new ApiError('invalid_json');
  const text = bytes.toString();
  try {
    return JSON.parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text) as unknown;
  } catch {
    // No cause: its message quotes the body.
    throw new ApiError('invalid_json');
  }
}

export function bodyTooLarge(limit: number): ApiError {
  return new ApiError('body_too_large', { message: `The body is larger than ${limit} bytes.` });
}

function isJson(type: string | undefined): boolean {
  return type === 'application/json' || type?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json';
}

// Bytes beyond the limit are still read, and dropped: a client that goes on sending would not read the answer.
function readAll(request: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) chunks.push(chunk);
      else reject(bodyTooLarge(limit));
    });
    request.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    // The body was cut short: its sender is gone, or the server itself has answered.
    const cutShort = () => reject(new ApiError('bad_http'));
    request.on('error', cutShort);
    request.on('close', () => !request.readableEnded && cutShort());
  });
}
