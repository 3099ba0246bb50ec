import type { Clock } from './clock.ts';
import { errorIn, errorInBatch, errorOf, KeytallyError } from './error.ts';
import { makeCall, watchDeadlines, type Attempt, type Call } from './gathered-call.ts';
import { headersOf, JSON_TYPE, resultOf, unanswered } from './send.ts';
import type { Exchange, HttpAnswer, HttpRequest, Transport } from './transport.ts';

type GathererOptions = { transport: Transport; token: string; url: string; clock: Clock };

const MOST_CALLS = 100;
// A batch has at most 256 KiB, and a character at most three bytes.
const MOST_CHARACTERS = 80_000;
// A verification has at most 16 KiB: what is longer is refused by itself.
const LONGEST = 16_384;
const WAIT_MS = 1;
const LONGEST_MS = 9_999_999;

/**
 * Makes the function that sends verifications. Those of one turn of the event loop leave together, and so do those that come
 * while others are on their way: they wait for these, but at most a millisecond. One alone leaves at once, by itself.
 */
export function makeGatherer({
  transport,
  token,
  url,
  clock,
}: GathererOptions): (attempt: Attempt) => Promise<unknown> {
  const headers = headersOf(token, JSON_TYPE, true);
  let waiting: Call[] = [];
  let isTurnPlanned = false;
  let requestsUnderWay = 0;
  let stopTimer: (() => void) | undefined;
  const gathers = mayGather();

  function ask(attempt: Attempt): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call = makeCall(attempt, { resolve, reject }, clock.now());
      if (!gathers || !mayJoin(attempt.input, call.json)) return sendTogether([call]);
      waiting.push(call);
      if (waiting.length >= MOST_CALLS) sendWaiting();
      else planTurn();
    });
  }

  function planTurn(): void {
    if (isTurnPlanned || stopTimer) return;
    isTurnPlanned = true;
    atEndOfTurn(() => {
      isTurnPlanned = false;
      if (requestsUnderWay === 0) sendWaiting();
      else if (waiting.length > 0) stopTimer ??= clock.after(WAIT_MS, sendWaiting);
    });
  }

  function sendWaiting(): void {
    forgetTimer();
    const calls = waiting.filter(({ isDone }) => !isDone);
    waiting = [];
    while (calls.length > 0) sendTogether(calls.splice(0, countThatFit(calls)));
  }

  function forgetTimer(): void {
    stopTimer?.();
    stopTimer = undefined;
  }

  function sendTogether(calls: Call[]): void {
    let exchange: Exchange;
    try {
      exchange = transport(calls.length === 1 ? single(calls[0]!) : batch(calls));
    } catch (error) {
      // No header can hold what the caller gave.
      return calls.forEach((call) => call.reject(error));
    }
    requestsUnderWay += 1;
    const stopWatching = watchDeadlines(calls, exchange, url, clock);
    const end = () => {
      stopWatching();
      requestsUnderWay -= 1;
      if (requestsUnderWay > 0 || waiting.length === 0) return;
      // Calls that follow from this answer, in this turn, join those that wait.
      forgetTimer();
      planTurn();
    };
    exchange.answer.then(
      (answer) => {
        end();
        deliver(calls, answer);
      },
      (cause: unknown) => {
        end();
        for (const call of calls) call.reject(unanswered(url, false, cause));
      },
    );
  }

  function deliver(calls: Call[], answer: HttpAnswer): void {
    let results: unknown[];
    try {
      results = calls.length === 1 ? [decisionOf(answer)] : resultsOf(answer, calls.length);
    } catch (error) {
      return calls.forEach((call) => call.reject(error));
    }
    for (const [i, call] of calls.entries()) {
      const result = results[i];
      if (result instanceof KeytallyError) call.reject(result);
      else call.resolve(result);
    }
  }

  function single(call: Call): HttpRequest {
    const { json, idempotencyKey, requestId } = call;
    const own = { 'Idempotency-Key': idempotencyKey, ...(requestId && { 'X-Request-Id': requestId }) };
    return { method: 'POST', url, headers: { ...headers, ...patienceOf([call]), ...own }, body: json };
  }

  function batch(calls: Call[]): HttpRequest {
    const verifications = calls.map(({ json, idempotencyKey }) => {
      const fields = json.slice(1, -1);
      return `{${fields}${fields && ','}"idempotencyKey":${JSON.stringify(idempotencyKey)}}`;
    });
    return {
      method: 'POST',
      url: `${url}/batch`,
      headers: { ...headers, ...patienceOf(calls) },
      body: `{"verifications":[${verifications.join()}]}`,
    };
  }

  /** Says how long one of them still waits: verify need not decide what comes too late for all. */
  function patienceOf(calls: readonly Call[]): Record<string, string> {
    const restMs = Math.max(...calls.map(({ until }) => until)) - clock.now();
    return { 'X-Keytally-Timeout-Ms': String(Math.min(Math.max(1, Math.floor(restMs)), LONGEST_MS)) };
  }

  return ask;
}

/** How many calls fit into the first batch. */
function countThatFit(calls: readonly Call[]): number {
  let characters = 0;
  for (const [i, { json, idempotencyKey }] of calls.entries()) {
    characters += json.length + idempotencyKey.length + 25;
    if (i === MOST_CALLS || characters > MOST_CHARACTERS) return Math.max(1, i);
  }
  return calls.length;
}

type Result = { status?: string } | null;

/** The answer to one call. What has no status decides nothing, and must let nobody pass. */
function decisionOf(answer: HttpAnswer): unknown {
  const result = resultOf(answer) as Result;
  if (isDecision(result)) return result;
  throw errorOf(answer);
}

/** The answers of a batch, in order. */
function resultsOf(answer: HttpAnswer, count: number): unknown[] {
  const { results } = (resultOf(answer) ?? {}) as { results?: Result[] };
  const isOurs =
    Array.isArray(results) && results.length === count && results.every((one) => errorIn(one) || isDecision(one));
  if (!isOurs)
    throw new KeytallyError('the answer to a batch is not from keytally', { status: answer.status, code: 0 });
  const requestId = answer.headers.get('x-request-id') ?? undefined;
  return results.map((result) => {
    const error = errorIn(result);
    return error ? errorInBatch(error, requestId) : result;
  });
}

function isDecision(result: Result): boolean {
  return typeof result?.status === 'string';
}

// A field of that name must be refused, and not be replaced by the key of the call.
function mayJoin(input: object, json: string): boolean {
  return json.length <= LONGEST && json.startsWith('{') && !('idempotencyKey' in input);
}

type Runtime = { setImmediate?(task: () => void): void; navigator?: { userAgent?: string } };

// Workers let no request wait for what another one has sent.
function mayGather(): boolean {
  return (globalThis as Runtime).navigator?.userAgent !== 'Cloudflare-Workers';
}

/** Runs a task when the turn's other sockets were read too; where nothing tells that, once the running code is done. */
function atEndOfTurn(task: () => void): void {
  const { setImmediate } = globalThis as Runtime;
  if (setImmediate) setImmediate(task);
  else queueMicrotask(task);
}
