import type { Clock } from './clock.ts';
import { errorIn, errorInBatch, errorOf, KeytallyError } from './error.ts';
import { headersOf, JSON_TYPE, resultOf, unreachable } from './send.ts';
import type { Exchange, HttpAnswer, HttpRequest, Transport } from './transport.ts';

type GathererOptions = { transport: Transport; token: string; url: string; clock: Clock };
type Attempt = { input: object; idempotencyKey: string; requestId: string | undefined; timeoutMs: number };
/** An attempt that waits for its turn first, then for an answer. */
type Call = Attempt & {
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
  let requestsUnderWay = 0;
  /** Calls off that those who wait are sent as it was planned. */
  let callOff: (() => void) | undefined;
  // Workers let no request wait for what another one has sent.
  const gathers = (globalThis as Runtime).navigator?.userAgent !== 'Cloudflare-Workers';

  function ask(attempt: Attempt): Exchange<unknown> {
    const json = JSON.stringify(attempt.input);
    const call = { ...attempt, json, until: clock.now() + attempt.timeoutMs, isGivenUp: false, onGivenUp() {} } as Call;
    const answer = new Promise((resolve, reject) => Object.assign(call, { resolve, reject }));
    if (!gathers || !mayJoin(call)) sendTogether([call]);
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
    if (waiting.length === MOST_CALLS || characters + own > MOST_CHARACTERS) sendWaiting();
    characters += own;
    waiting.push(call);
    callOff ??= atEndOfTurn(endTurn);
  }

  function endTurn(): void {
    if (requestsUnderWay === 0) sendWaiting();
    else callOff = clock.after(WAIT_MS, sendWaiting);
  }

  function sendWaiting(): void {
    callOff?.();
    callOff = undefined;
    const calls = waiting.filter(({ isGivenUp }) => !isGivenUp);
    waiting = [];
    characters = 0;
    if (calls.length > 0) sendTogether(calls);
  }

  function sendTogether(calls: Call[]): void {
    const failAll = (error: unknown) => calls.forEach((call) => call.reject(error));
    let exchange: Exchange<HttpAnswer>;
    try {
      exchange = transport(requestOf(calls));
    } catch (error) {
      // No header can hold what the caller gave.
      return failAll(error);
    }
    requestsUnderWay += 1;
    for (const call of calls) call.onGivenUp = () => calls.every(({ isGivenUp }) => isGivenUp) && exchange.cancel();
    const end = () => {
      requestsUnderWay -= 1;
      if (requestsUnderWay > 0 || !callOff) return;
      // Calls that follow from this answer, in this turn, join those that wait.
      callOff();
      callOff = atEndOfTurn(endTurn);
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

  function requestOf(calls: Call[]): HttpRequest {
    // Verify need not decide what comes too late for all.
    const restMs = Math.floor(Math.max(...calls.map(({ until }) => until)) - clock.now());
    const shared = { ...headers, 'X-Keytally-Timeout-Ms': String(Math.min(Math.max(1, restMs), LONGEST_MS)) };
    const [{ json, idempotencyKey, requestId }] = calls as [Call];
    if (calls.length === 1) {
      const own = { 'Idempotency-Key': idempotencyKey, ...(requestId && { 'X-Request-Id': requestId }) };
      return { method: 'POST', url, headers: { ...shared, ...own }, body: json };
    }
    const verifications = calls.map(({ json, idempotencyKey }) => {
      const fields = json.slice(1, -1);
      return `{${fields}${fields && ','}"idempotencyKey":${JSON.stringify(idempotencyKey)}}`;
    });
    return {
      method: 'POST',
      url: `${url}/batch`,
      headers: shared,
      body: `{"verifications":[${verifications.join()}]}`,
    };
  }

  return ask;
}

/** What so many calls of a request are answered, in order. What has no status decides nothing, and must let nobody pass. */
function outcomesOf(answer: HttpAnswer, count: number): unknown[] {
  const body = resultOf(answer) as { results?: unknown } | null;
  const results = count > 1 ? body?.results : [body];
  if (!Array.isArray(results) || results.length !== count) throw errorOf(answer);
  const requestId = answer.headers.get('x-request-id') ?? undefined;
  return results.map((one: { status?: string } | null) => {
    const error = count > 1 ? errorIn(one) : undefined;
    if (!error && typeof one?.status !== 'string') throw errorOf(answer);
    return error ? errorInBatch(error, requestId) : one;
  });
}

// A field of that name must be refused, and not be replaced by the key of the call.
function mayJoin({ input, json }: Call): boolean {
  return json.length <= LONGEST && json.startsWith('{') && !('idempotencyKey' in input);
}

type Runtime = { setImmediate?(task: () => void): void; navigator?: { userAgent?: string } };

/** Runs a task when the turn's other sockets were read too; where nothing tells that, once the running code is done. Gives what calls it off. */
function atEndOfTurn(task: () => void): () => void {
  let isOff = false;
  const { setImmediate = queueMicrotask } = globalThis as Runtime;
  setImmediate(() => {
    if (!isOff) task();
  });
  return () => void (isOff = true);
}
