import type { HttpAnswer } from './transport.ts';

type Details = { path: string; message: string }[];
type Fields = {
  status: number;
  code: number;
  requestId?: string | undefined;
  details?: Details;
  retryAfterSeconds?: number | undefined;
  mayBeDebited?: boolean;
};
export type ErrorInBody = { code: number; message: string; details: Details };

/** The error of a failed call: keytally answered with an error, or did not answer at all (status and code are 0 then). */
export class KeytallyError extends Error {
  override readonly name = 'KeytallyError';
  /** The HTTP status. */
  readonly status: number;
  /** The code from keytally's table of errors; 0 if something other than keytally answered. */
  readonly code: number;
  readonly requestId: string | undefined;
  /** For a request that was not valid: which fields were wrong, and why. */
  readonly details: Details;
  /** A fraction where keytally needs less than a second. */
  readonly retryAfterSeconds: number | undefined;
  /** Whether an attempt of a verification may have been debited, and was not refused before. */
  readonly mayBeDebited: boolean;

  constructor(message: string, fields: Fields, options?: ErrorOptions) {
    super(message, options);
    this.status = fields.status;
    this.code = fields.code;
    this.requestId = fields.requestId;
    this.details = fields.details ?? [];
    this.retryAfterSeconds = fields.retryAfterSeconds;
    this.mayBeDebited =
      fields.mayBeDebited ?? (this.code === 0 || (isPassing(this) && !debitedNothing.includes(this.code)));
  }

  /** Whether nothing was decided, because keytally or a server before it is unavailable or overloaded. */
  get isAway(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

const FIRST_REQUEST_STILL_RUNS = 40905;

// What a wrong access token gets after some 401s.
export const TOO_MANY_FAILURES = 42901;
// A cancel found nothing that was taken.
export const NOTHING_TAKEN = 40451;
// A flood of wrong keys can use up the team's quota, and must not let them pass.
export const OVER_QUOTA = 42920;
const REDIS_UNAVAILABLE = 50301;
const OUTBOX_FULL = 50306;
const OVERLOADED = 50308;
const debitedNothing = [TOO_MANY_FAILURES, OVER_QUOTA, REDIS_UNAVAILABLE, OUTBOX_FULL, OVERLOADED];

/** Whether the same request may succeed a moment later. */
export function isPassing(error: KeytallyError): boolean {
  return error.isAway || error.code === FIRST_REQUEST_STILL_RUNS;
}

/** Turns an answer into an error that is not a success, or is not from keytally. */
export function errorOf({ status, headers, text }: HttpAnswer): KeytallyError {
  const requestId = headers.get('x-request-id') ?? undefined;
  const retryAfter = Number(headers.get('retry-after-ms') ?? NaN) / 1000 || Number(headers.get('retry-after') ?? NaN);
  const fields = { status, requestId, retryAfterSeconds: retryAfter >= 0 ? retryAfter : undefined };
  const error = errorIn(parsed(text));
  if (error && statusOf(error.code) === status) return new KeytallyError(error.message, { ...error, ...fields });
  const message = `HTTP ${status}, but the answer is not from keytally; check the address`;
  return new KeytallyError(message, { ...fields, code: 0 });
}

// What keytally says with each 429 and 503 of a verification.
const RETRY_AFTER_SECONDS: Record<number, number> = { 429: 1, 503: 0.05 };

/** The error of one verification of a batch, as it would be if that had been sent alone. */
export function errorInBatch(error: ErrorInBody, requestId: string | undefined): KeytallyError {
  const status = statusOf(error.code);
  return new KeytallyError(error.message, {
    ...error,
    status,
    requestId,
    retryAfterSeconds: RETRY_AFTER_SECONDS[status],
  });
}

/** The error that a body, or a result of a batch, holds; `undefined` if it is none of keytally's, whose codes begin with their HTTP status. */
export function errorIn(body: unknown): ErrorInBody | undefined {
  const { error } = (body ?? {}) as { error?: Partial<ErrorInBody> | null };
  const { code, message, details } = error ?? {};
  if (!Number.isInteger(code) || statusOf(code!) < 400 || statusOf(code!) > 599) return undefined;
  return {
    code: code!,
    message: typeof message === 'string' ? message : `error ${code}`,
    details: areDetails(details) ? details : [],
  };
}

function statusOf(code: number): number {
  return Math.floor(code / 100);
}

// What answers in the place of keytally may have others.
function areDetails(given: unknown): given is Details {
  const isText = (value: unknown) => typeof value === 'string';
  return (
    Array.isArray(given) && given.every((one: Details[number] | null) => isText(one?.path) && isText(one?.message))
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
