import type { Clock } from './clock.ts';
import { errorOf, isPassing, KeytallyError } from './error.ts';
import { checkedTimeout } from './given.ts';
import type { Exchange, HttpAnswer, Transport } from './transport.ts';

export type CallOptions = {
  /** Give the same key again when you repeat a call yourself; by default each call gets a new one. */
  idempotencyKey?: string;
  /** Appears in the answer and in keytally's logs; a verification that left in a batch has the batch's there. */
  requestId?: string;
  /** The call fails after this time, retries included. */
  timeoutMs?: number;
  signal?: AbortSignal;
};
export type Sender = {
  token: string;
  transport: Transport;
  /** Called with the error of a failed attempt, before the next attempt. */
  onRetry: (error: KeytallyError) => void;
  clock: Clock;
};
export type OutgoingRequest = {
  method: string;
  url: string;
  accept: string;
  body: unknown;
  /** Its parts have keys of their own, and the whole takes none. */
  hasIdempotencyKeys?: boolean;
};

export const JSON_TYPE = 'application/json';
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/**
 * Sends a request, and repeats it while that may help and time is left. Repeating is safe: every call that creates
 * something or takes credits sends the same Idempotency-Key each time.
 */
export async function send(
  sender: Sender,
  request: OutgoingRequest,
  options: CallOptions & { timeoutMs: number },
): Promise<unknown> {
  const { method, url, accept, body } = request;
  const headers = headersOf(sender.token, accept, body !== undefined);
  if (method === 'POST' && !request.hasIdempotencyKeys)
    headers['Idempotency-Key'] = options.idempotencyKey ?? crypto.randomUUID();
  if (options.requestId) headers['X-Request-Id'] = options.requestId;
  const outgoing = { method, url, headers, body: body === undefined ? undefined : JSON.stringify(body) };
  return repeat(sender, options, () => {
    const { answer, cancel } = sender.transport(outgoing);
    return { answer: answer.catch(unreachable(url)).then((received) => resultOf(received, accept)), cancel };
  });
}

/** Attempts something with a part of the time that is left, and again while that may help. */
export async function repeat<Result>(
  { onRetry, clock }: Pick<Sender, 'onRetry' | 'clock'>,
  { timeoutMs, signal }: CallOptions & { timeoutMs: number },
  attempt: (timeoutMs: number) => Exchange<Result>,
): Promise<Result> {
  const until = clock.now() + checkedTimeout('timeoutMs', timeoutMs);
  let answered: KeytallyError | undefined;
  let mayBeDebited = false;
  for (let attempts = 0; ; attempts++) {
    try {
      // Half of the time left: if this answer is lost, another attempt still has time.
      const attemptMs = Math.max(0, until - clock.now()) / 2;
      signal?.throwIfAborted();
      return await ended(attempt(attemptMs), clock, attemptMs, signal);
    } catch (error) {
      if (!(error instanceof KeytallyError)) throw error;
      mayBeDebited ||= error.mayBeDebited;
      if (!isPassing(error)) throw withDoubt(error, mayBeDebited);
      if (error.code !== 0) answered = error;
      const backoffMs = Math.min(FIRST_PAUSE_MS * 2 ** attempts, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
      const pauseMs = Math.max(backoffMs, (error.retryAfterSeconds ?? 0) * 1000);
      // The last attempts are short: what keytally itself answered before says more than that they got no answer.
      if (clock.now() + pauseMs >= until) throw withDoubt(answered ?? error, mayBeDebited);
      onRetry(error);
      await clock.pause(pauseMs, signal);
    }
  }
}

// The calls of a batch that fails have one error: what is known of one call is told by a copy.
function withDoubt(error: KeytallyError, mayBeDebited: boolean): KeytallyError {
  if (error.mayBeDebited === mayBeDebited) return error;
  const { message, status, code, requestId, details, retryAfterSeconds, cause } = error;
  return new KeytallyError(message, { status, code, requestId, details, retryAfterSeconds, mayBeDebited }, { cause });
}

/** The headers that requests have alike. */
export function headersOf(token: string, accept: string, hasBody: boolean): Record<string, string> {
  return {
    Authorization: `Bearer ${token}`,
    Accept: accept,
    ...(hasBody && { 'Content-Type': JSON_TYPE }),
  };
}

/** What an answer says, where JSON was asked for or another type; throws the error that it is. */
export function resultOf(answer: HttpAnswer, accept = JSON_TYPE): unknown {
  const { status, text } = answer;
  if (status < 200 || status > 299) throw errorOf(answer);
  if (accept !== JSON_TYPE) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw errorOf(answer);
  }
}

/** Throws the error of a request without an answer. */
export function unreachable(url: string): (cause: unknown) => never {
  return (cause) => {
    const message = `keytally cannot be reached at ${new URL(url).origin}`;
    throw new KeytallyError(message, { status: 0, code: 0 }, { cause });
  };
}

/** The answer of an attempt, which is given up after a while, and when the signal aborts. */
async function ended<Result>(
  { answer, cancel }: Exchange<Result>,
  clock: Clock,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<Result> {
  let isLate = false;
  const stopTimer = clock.after(timeoutMs, () => {
    isLate = true;
    cancel();
  });
  signal?.addEventListener('abort', cancel);
  try {
    return await answer;
  } catch (error) {
    signal?.throwIfAborted();
    throw isLate
      ? new KeytallyError('keytally did not answer in time', { status: 0, code: 0 }, { cause: error })
      : error;
  } finally {
    stopTimer();
    signal?.removeEventListener('abort', cancel);
  }
}
