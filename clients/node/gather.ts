import type { Clock } from './clock.ts';
import { errorIn, errorInBatch, errorOf, KeytallyError } from './error.ts';
import { headersOf, JSON_TYPE, resultOf, unreachable } from './send.ts';
import type { Exchange, HttpAnswer, HttpRequest, Transport } from './transport.ts';

type GathererOptions = { transport: Transport; token: string; url: string; clock: Clock };
/** One attempt of a verification. */
type Attempt = { input: object; idempotencyKey: string; requestId: string | undefined; timeoutMs: number };
/** An attempt that waits for its turn first, then for an answer. */
type Call = Pick<Attempt, 'idempotencyKey' | 'requestId'> & {
  /** Its input. */
  json: string;
  /** When it is given up, by the client's clock. */
  until: number;
  isGivenUp: boolean;
  /** Called once it is given up: its request, when no call waits for it any more, is too. */
  onGivenUp(): void;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
};

const MOST_CALLS = 100;
// A batch has at most 256 KiB, and a character at most three bytes.
const MOST_CHARACTERS = 80_000;
// A verification has at most 16 KiB: what is longer is refused by itself.
const LONGEST = 16_384;
// What a call takes in a batch besides its input and its key.
const BESIDES = 25;
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
}: GathererOptions): (attempt: Attempt) => Exchange<unknown> {
  const headers = headersOf(token, JSON_TYPE, true);
  let waiting: Call[] = [];
  let characters = 0;
  let isTurnPlanned = false;
  let requestsUnderWay = 0;
  let stopTimer: (() => void) | undefined;
  const gathers = mayGather();

  function ask({ input, timeoutMs, ...attempt }: Attempt): Exchange<unknown> {
    const json = JSON.stringify(input);
    const call = { ...attempt, json, until: clock.now() + timeoutMs, isGivenUp: false, onGivenUp() {} } as Call;
    const answer = new Promise((resolve, reject) => Object.assign(call, { resolve, reject }));
    if (!gathers || !mayJoin(input, json)) sendTogether([call]);
    else join(call);
    const cancel = () => {
      call.isGivenUp = true;
      call.reject(new Error('given up'));
      call.onGivenUp();
    };
    return { answer, cancel };
  }

  function join(call: Call): void {
    const own = call.json.length + call.idempotencyKey.length + BESIDES;
    if (characters + own > MOST_CHARACTERS) sendWaiting();
    characters += own;
    if (waiting.push(call) === MOST_CALLS) sendWaiting();
    else planTurn();
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
    const calls = waiting.filter(({ isGivenUp }) => !isGivenUp);
    waiting = [];
    characters = 0;
    if (calls.length > 0) sendTogether(calls);
  }

  function forgetTimer(): void {
    stopTimer?.();
    stopTimer = undefined;
  }

  function sendTogether(calls: Call[]): void {
    const failAll = (error: unknown) => calls.forEach((call) => call.reject(error));
    let exchange: Exchange<HttpAnswer>;
    try {
      exchange = transport(calls.length === 1 ? single(calls[0]!) : batch(calls));
    } catch (error) {
      // No header can hold what the caller gave.
      return failAll(error);
    }
    requestsUnderWay += 1;
    for (const call of calls) call.onGivenUp = () => calls.every(({ isGivenUp }) => isGivenUp) && exchange.cancel();
    const end = () => {
      requestsUnderWay -= 1;
      if (requestsUnderWay > 0 || waiting.length === 0) return;
      // Calls that follow from this answer, in this turn, join those that wait.
      forgetTimer();
      planTurn();
    };
    exchange.answer
      .finally(end)
      .catch(unreachable(url))
      .then((answer) => {
        for (const [i, outcome] of outcomesOf(answer, calls.length).entries())
          if (outcome instanceof KeytallyError) calls[i]!.reject(outcome);
          else calls[i]!.resolve(outcome);
      })
      .catch(failAll);
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

type Result = { status?: string } | null;

/** What so many calls of a request are answered, in order. What has no status decides nothing, and must let nobody pass. */
function outcomesOf(answer: HttpAnswer, count: number): unknown[] {
  const body = resultOf(answer);
  const errorOfOne = count > 1 ? errorIn : () => undefined;
  const results: unknown = count > 1 ? (body as { results?: unknown } | null)?.results : [body];
  const isOurs = (one: Result) => errorOfOne(one) || typeof one?.status === 'string';
  if (!Array.isArray(results) || results.length !== count || !results.every(isOurs)) throw errorOf(answer);
  const requestId = answer.headers.get('x-request-id') ?? undefined;
  return results.map((one: Result) => {
    const error = errorOfOne(one);
    return error ? errorInBatch(error, requestId) : one;
  });
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
