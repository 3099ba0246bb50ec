import { errorOf, isPassing, KeytallyError } from './error.ts';

export type CallOptions = {
  /** For a repetition that you make yourself; each call has one of its own otherwise. */
  idempotencyKey?: string;
  /** Is echoed, and stands in keytally's logs. */
  requestId?: string;
  /** After so long the call fails, whatever was tried. */
  timeoutMs?: number;
  signal?: AbortSignal;
};
export type Sender = {
  token: string;
  fetch: typeof fetch;
  /** Told what failed before it is tried again. */
  onRetry: (error: KeytallyError) => void;
};
export type Sent = { method: string; url: string; accept: string; body: unknown };

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/**
 * Sends a request, and again while it may help and time is left. Everything is safe to repeat: what creates something or
 * takes credits has an Idempotency-Key, the same each time.
 */
export async function send(sender: Sender, sent: Sent, options: CallOptions & { timeoutMs: number }): Promise<unknown> {
  const until = performance.now() + options.timeoutMs;
  const headers = new Headers({ Authorization: `Bearer ${sender.token}`, Accept: sent.accept });
  if (sent.body !== undefined) headers.set('Content-Type', 'application/json');
  if (sent.method === 'POST') headers.set('Idempotency-Key', options.idempotencyKey ?? crypto.randomUUID());
  if (options.requestId) headers.set('X-Request-Id', options.requestId);
  const init = {
    method: sent.method,
    headers,
    // A token must not follow to wherever an answer points.
    redirect: 'manual' as const,
    ...(sent.body !== undefined && { body: JSON.stringify(sent.body) }),
  };
  for (let attempt = 0; ; attempt++) {
    try {
      // Half of what is left: an answer that was lost must leave time for another attempt.
      return await sendOnce(sender, sent.url, init, (until - performance.now()) / 2, options.signal);
    } catch (error) {
      if (!isPassing(error)) throw error;
      const backoffMs = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
      const pauseMs = Math.max(backoffMs, (error.retryAfterSeconds ?? 0) * 1000);
      if (performance.now() + pauseMs >= until) throw error;
      sender.onRetry(error);
      await pause(pauseMs, options.signal);
    }
  }
}

async function sendOnce(
  sender: Sender,
  url: string,
  init: RequestInit,
  withinMs: number,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const end = () => controller.abort();
  const timer = setTimeout(end, withinMs);
  signal?.addEventListener('abort', end);
  let response: Response;
  let text: string;
  try {
    response = await sender.fetch(url, { ...init, signal: controller.signal });
    text = await response.text();
  } catch (cause) {
    signal?.throwIfAborted();
    const message = controller.signal.aborted ? 'keytally has not answered in time' : 'keytally can not be reached';
    throw new KeytallyError(message, { status: 0, code: 0 }, { cause });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end);
  }
  if (!response.ok) throw errorOf(response, text);
  if (!response.headers.get('content-type')?.startsWith('application/json')) return text;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new KeytallyError('the answer is no JSON', { status: response.status, code: 0 }, { cause });
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
