import type { Clock } from './clock.ts';
import { unanswered } from './send.ts';
import type { Exchange } from './transport.ts';

/** One attempt of a verification. */
export type Attempt = {
  input: object;
  idempotencyKey: string;
  requestId: string | undefined;
  timeoutMs: number;
  signal: AbortSignal | undefined;
};

/** An attempt that waits for its outcome: for its turn first, then for an answer. */
export type Call = {
  /** Its input. */
  json: string;
  idempotencyKey: string;
  requestId: string | undefined;
  /** When it is given up, by the client's clock. */
  until: number;
  isDone: boolean;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
  /** Called once it has its outcome. */
  onDone(): void;
};

/** Makes the call of an attempt; `settle` is its caller's promise. */
export function makeCall(
  { input, idempotencyKey, requestId, timeoutMs, signal }: Attempt,
  settle: Pick<Call, 'resolve' | 'reject'>,
  nowMs: number,
): Call {
  signal?.throwIfAborted();
  const abort = () => call.reject(signal!.reason);
  const finish = (): boolean => {
    if (call.isDone) return false;
    call.isDone = true;
    signal?.removeEventListener('abort', abort);
    call.onDone();
    return true;
  };
  const call: Call = {
    json: JSON.stringify(input),
    idempotencyKey,
    requestId,
    until: nowMs + timeoutMs,
    isDone: false,
    resolve: (answer) => finish() && settle.resolve(answer),
    reject: (error) => finish() && settle.reject(error),
    onDone() {},
  };
  signal?.addEventListener('abort', abort);
  return call;
}

/**
 * Gives up each call of a request at its own deadline, and the request when no call waits for it any more. The function that it
 * gives ends this: the answer is there.
 */
export function watchDeadlines(calls: readonly Call[], exchange: Exchange, url: string, clock: Clock): () => void {
  let stopTimer = () => {};
  let isAnswered = false;

  function giveUpLate(): void {
    const now = clock.now();
    let next = Infinity;
    for (const call of calls) {
      if (call.isDone) continue;
      if (call.until <= now) call.reject(unanswered(url, true));
      else next = Math.min(next, call.until);
    }
    if (next < Infinity) stopTimer = clock.after(next - now, giveUpLate);
  }

  for (const call of calls) {
    call.onDone = () => {
      if (!isAnswered && calls.every(({ isDone }) => isDone)) exchange.cancel();
    };
  }
  giveUpLate();
  return () => {
    isAnswered = true;
    stopTimer();
  };
}
