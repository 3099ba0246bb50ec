import type { ServerResponse } from 'node:http';
import type { FixedHeaders } from '../../shared/http/headers.ts';
import { inSlices } from '../../shared/http/static-files.ts';

/** What a request is answered. Bytes go in slices, for whoever reads slowly, unless they are to go at once. */
export type Answer = {
  status: number;
  type: string;
  text: string | Buffer;
  atOnce?: boolean;
  headers?: Record<string, string>;
};

// Node would join a longer text with the headers, and write a copy of both.
const LONGEST_TEXT = 2_000;
const MOST_AT_ONCE = 64 * 1024;

/** The answer with a decision, or with those of a batch, as JSON. */
export function decided(text: string): Answer {
  const type = 'application/json';
  if (text.length <= LONGEST_TEXT) return { status: 200, type, text };
  return { status: 200, type, text: Buffer.from(text), atOnce: text.length <= MOST_AT_ONCE };
}

/** Sends the answer to the request of this id, with these headers beside its own; none of its text to HEAD. */
export function sendAnswer(response: ServerResponse, answer: Answer, id: string, fixed: FixedHeaders): void {
  const { status, type, text, headers } = answer;
  response.writeHead(status, {
    ...fixed,
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(text),
    'X-Request-Id': id,
    ...headers,
  });
  if (response.req.method === 'HEAD') response.end();
  else if (typeof text === 'string' || answer.atOnce) response.end(text);
  else inSlices(text).pipe(response);
}
