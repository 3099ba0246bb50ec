import { errorOf, isPassing, KeytallyError } from './error.ts';

export type CallOptions = {
  /** Give the same key again when you repeat a call yourself; by default each call gets a new one. */
  idempotencyKey?: string;
  /** Appears in the answer and in keytally's logs. */
  requestId?: string;
  /** The call fails after this time, retries included. */
  timeoutMs?: number;
  signal?: AbortSignal;
};
export type Sender = {
  token: string;
  fetch: typeof fetch;
  /** Called with the error of a failed attempt, before the next attempt. */
  onRetry: (error: KeytallyError) => void;
};
export type OutgoingRequest = {
  method: string;
  url: string;
  accept: string;
  body: unknown;
  /** Its parts have keys of their own, and the whole takes none. */
  hasIdempotencyKeys?: boolean;
};

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
  const until = performance.now() + options.timeoutMs;
  const headers = new Headers({ Authorization: `Bearer ${sender.token}`, Accept: request.accept });
  if (request.body !== undefined) headers.set('Content-Type', 'application/json');
  if (request.method === 'POST' && !request.hasIdempotencyKeys)
    headers.set('Idempotency-Key', options.idempotencyKey ?? crypto.randomUUID());
  if (options.requestId) headers.set('X-Request-Id', options.requestId);
  const init = {
    method: request.method,
    headers,
    // fetch must not send the token to the address that a redirect names.
    redirect: 'manual' as const,
    ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
  };
  for (let attempt = 0; ; attempt++) {
    try {
      // Half of the time left: if this answer is lost, another attempt still has time.
      const attemptMs = (until - performance.now()) / 2;
      return await sendOnce(sender, { url: request.url, init, timeoutMs: attemptMs, signal: options.signal });
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

type Attempt = { url: string; init: RequestInit; timeoutMs: number; signal: AbortSignal | undefined };

async function sendOnce(sender: Sender, { url, init, timeoutMs, signal }: Attempt): Promise<unknown> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, timeoutMs);
  signal?.addEventListener('abort', abort);
  let response: Response;
  let text: string;
  try {
    response = await sender.fetch(url, { ...init, signal: controller.signal });
    text = await response.text();
  } catch (cause) {
    signal?.throwIfAborted();
    const message = controller.signal.aborted
      ? 'keytally did not answer in time'
      : `keytally cannot be reached at ${new URL(url).origin}`;
    throw new KeytallyError(message, { status: 0, code: 0 }, { cause });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
  if (!response.ok) throw errorOf(response, text);
  if (!response.headers.get('content-type')?.startsWith('application/json')) return text;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new KeytallyError('the answer is not JSON', { status: response.status, code: 0 }, { cause });
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
