import { randomUUID } from 'node:crypto';
import { errors } from '../../shared/contract/errors.ts';
import { checkAnswer } from './contract.ts';
import { eventually } from './eventually.ts';

export type Answer = {
  status: number;
  headers: Headers;
  body: any;
  text: string;
  /** Sends the request again. There only where it was not decided, as on a busy machine, and a repetition does nothing twice. */
  again?: () => Promise<Answer>;
};
/** Calls the api (or another base URL), as JSON with a team's token; `token: null` sends none. */
export type Call = (method: string, path: string, body?: unknown, options?: RequestOptions) => Promise<Answer>;
export type RequestOptions = { token?: string | null; body?: unknown; headers?: Record<string, string>; raw?: string };

const { redis_unavailable, postgres_unavailable, outbox_full, overloaded, idempotency_busy } = errors;
// A change that Postgres may have stored is answered with `stored_or_not`.
const NOTHING_WAS_DONE: unknown[] = [redis_unavailable, postgres_unavailable, outbox_full, overloaded].map(
  ([code]) => code,
);

/** Headers with which a request does once what it asks for, however often it is sent. */
export const once = () => ({ 'Idempotency-Key': randomUUID() });

/** Gives the answer. What was not decided is asked again where nothing is done twice by it, unless that status was wanted. */
export async function decided(answer: Promise<Answer>, wanted?: number): Promise<Answer> {
  let received = await answer;
  await eventually(`it is decided: ${received.text}`, async () => {
    if (received.status === wanted || !received.again) return true;
    received = await received.again();
    return false;
  });
  return received;
}

/** Sends one HTTP request, and checks that its answer is as documented; `raw` is sent as it stands instead of JSON. */
export async function request(url: string, method: string, options: RequestOptions): Promise<Answer> {
  const { token, body, raw } = options;
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(url, {
    method: method.toUpperCase(),
    headers: {
      ...(token && { Authorization: `Bearer ${token}` }),
      ...(payload !== undefined && { 'Content-Type': 'application/json' }),
      ...options.headers,
    },
    ...(payload !== undefined && { body: payload }),
  });
  const text = await response.text();
  const { status, headers } = response;
  const { origin, pathname } = new URL(url);
  checkAnswer(origin, method, pathname, { status, headers, text });
  const isJson = headers.get('content-type')?.includes('json');
  const answer: Answer = { status, headers, text, body: isJson && text ? JSON.parse(text) : undefined };
  if (isRepeatable(method.toLowerCase(), options, answer)) answer.again = () => request(url, method, options);
  return answer;
}

function isRepeatable(method: string, { headers = {} }: RequestOptions, { status, body }: Answer): boolean {
  const code: unknown = body?.error?.code;
  if (code === idempotency_busy[0]) return true;
  if (status !== 503) return false;
  return method === 'get' || method === 'patch' || 'Idempotency-Key' in headers || NOTHING_WAS_DONE.includes(code);
}
