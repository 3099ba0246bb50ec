import type { Keytally } from './client.ts';
import { clockOf } from './clock.ts';
import { refusals, type Decision as Verification } from './contract.ts';
import { KeytallyError, NOTHING_TAKEN, OVER_QUOTA, TOO_MANY_FAILURES } from './error.ts';
import {
  checkOptions,
  idempotencyKeyOf,
  OptionError,
  verifyInputOf,
  type GuardOptions,
  type Seen,
} from './guard-options.ts';
import { noteHold, type HoldEvents } from './hold.ts';
import type { KeptCall } from './kept-usage.ts';
import { keysOf } from './key.ts';
import { rateLimitHeaders, refusalOf, refusedFor, type Answer, type Refusal, type Refused } from './refusal.ts';
import { noteSettling } from './settling.ts';
import { callBack } from './given.ts';

/** Whose request it is: the verification's answer, or `UNDECIDED` where `open` let the request pass. */
export type Identity = Omit<Verification, 'status'> & { status: 'VALID' | 'UNDECIDED' };

/** Headers for the answer, and the answer itself if the request is refused. */
export type Outcome = {
  headers: Record<string, string>;
  refusal?: Answer;
  /** Where credits are held. */
  hold?: HoldEvents;
};

// While keytally is unavailable each is repeated for as long as a call may take.
const MOST_CANCELS = 1_000;

const identities = new WeakMap<object, Identity>();

/** Whose request it is, for a handler behind a guard. It takes what the guard got: Koa's and Hono's context, else the request. */
export function identityOf(request: object): Identity {
  const identity = identities.get(request);
  if (!identity) throw new Error('identityOf(): no keytally guard ran before this handler');
  return identity;
}

/** Makes the function that decides whether a request may pass. If it may, `identityOf(request)` knows whose it is. */
export function makeDecide<Request extends object>(client: Keytally, options: GuardOptions<Request>) {
  checkOptions(options);
  let cancelling = 0;
  const { now } = clockOf(client);
  const { open, outOfCredits, refusalBody, onError = logEachSecond(now) } = options;

  return async function decide(request: Request, seen: Seen): Promise<Outcome> {
    const requestId = requestIdOf(seen.header('x-request-id'));
    const bodyOf = refusalBody && ((refusal: Refusal) => refusalBody(refusal, request));
    const refuse = (why: Refused, limitedBy?: Verification['limitedBy']): Outcome => {
      const nowMs = Date.now();
      return { headers: {}, refusal: refusalOf(why, { requestId, nowMs, limitedBy, outOfCredits, bodyOf }) };
    };
    const fail = (why: 'FAILED' | 'AWAY', message: string, cause?: unknown): Outcome => {
      note(message, cause);
      return refuse(why);
    };
    const note = (message: string, cause: unknown) =>
      callBack('onError', onError, new Error(`keytally guard, request ${requestId}: ${message}`, { cause }), request);
    // The end client is answered that nothing was decided, and shall not pay for it.
    const cancelLater = ({ input, idempotencyKey }: KeptCall) => {
      if (cancelling >= MOST_CANCELS) return;
      cancelling += 1;
      const cancelled = client.verifications
        .cancel({ key: input.key, idempotencyKey })
        .catch((error: unknown) => {
          if (!(error instanceof KeytallyError && error.code === NOTHING_TAKEN))
            note(`not cancelled: ${describe(error)}`, error);
        })
        .finally(() => (cancelling -= 1));
      noteSettling(client, cancelled);
    };
    const [key, another] = keysOf(seen.header, seen.rawHeaders);
    if (key === undefined) return refuse('NO_KEY');
    if (another !== undefined) return refuse('TWO_KEYS');
    // No key is longer or has other characters, also none that was imported.
    if (!/^[!-~]{1,512}$/.test(key)) return refuse('INVALID');

    let call: KeptCall;
    let given: string | undefined;
    try {
      const input = await verifyInputOf(key, options, request, seen);
      given = await idempotencyKeyOf(options, request);
      call = { input, idempotencyKey: given ?? crypto.randomUUID() };
    } catch (error) {
      // What the caller's own function throws is for the framework's error handler.
      if (error instanceof OptionError) return fail('FAILED', error.message, error);
      throw error;
    }
    const keep = (wasAnswered = false): boolean => {
      if (!open?.keep(call, wasAnswered)) return false;
      identities.set(request, { status: 'UNDECIDED' });
      return true;
    };
    if (open?.away)
      return keep() ? { headers: {} } : fail('AWAY', 'keytally is unavailable, and no more usage can be kept');

    let answer: Verification;
    const sentAtMs = now();
    try {
      answer = await client.verify(call.input, { idempotencyKey: call.idempotencyKey, requestId });
    } catch (error) {
      if (error instanceof KeytallyError && error.code === refusals.IDEMPOTENCY_MISMATCH[0])
        return refuse('IDEMPOTENCY_MISMATCH');
      // The end client did nothing wrong, and must not see the status that the error has for this server.
      if (!(error instanceof KeytallyError) || isMistake(error)) return fail('FAILED', describe(error), error);
      if (error.mayBeDebited) call.sentAtMs = sentAtMs;
      const mayPass = error.code !== OVER_QUOTA && keep(error.code !== 0);
      if (mayPass) return { headers: {} };
      // One that the options give is for repeating the request: cancelled, that would be refused.
      if (error.mayBeDebited && given === undefined) cancelLater(call);
      return fail('AWAY', describe(error), error);
    }
    const headers = rateLimitHeaders(answer.rateLimit, Date.now());
    const refused = refusedFor(answer);
    if (refused) return { ...refuse(refused, answer.limitedBy), headers };
    identities.set(request, { ...answer, status: 'VALID' });
    if (!options.hold) return { headers };
    return { headers, hold: noteHold(request, client, answer.hold?.id, (error) => note(describe(error), error)) };
  };
}

/** Whether the same request would fail again: this side made a mistake. */
function isMistake(error: KeytallyError): boolean {
  return !error.isAway || error.code === TOO_MANY_FAILURES;
}

function describe(error: unknown): string {
  if (!(error instanceof KeytallyError)) return String(error);
  const details = error.details.map(({ path, message }) => ` (${path} ${message})`).join('');
  return `${error.code ? `keytally answered ${error.code}: ` : ''}${error.message}${details}`;
}

const LOG_EVERY_MS = 1_000;

// A wrong token fails every request: one line a second says it.
function logEachSecond(now: () => number): (error: Error) => void {
  let nextMs = -Infinity;
  return (error) => {
    if (now() < nextMs) return;
    nextMs = now() + LOG_EVERY_MS;
    // oxlint-disable-next-line no-console -- the default for programs without an onError
    console.error(error.message);
  };
}

function requestIdOf(given: string | null | undefined): string {
  return given && /^[!-~]{1,128}$/.test(given) ? given : crypto.randomUUID();
}
