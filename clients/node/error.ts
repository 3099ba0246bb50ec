import type { HttpAnswer } from './transport.ts';

type Details = { path: string; message: string }[];
type Fields = { status: number; code: number; requestId?: string; details?: Details; retryAfterSeconds?: number };
export type ErrorInBatch = { code: number; message: string; details?: Details };

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
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, fields: Fields, options?: ErrorOptions) {
    super(message, options);
    this.status = fields.status;
    this.code = fields.code;
    this.requestId = fields.requestId;
    this.details = fields.details ?? [];
    this.retryAfterSeconds = fields.retryAfterSeconds;
  }

  /** Whether nothing was decided, because keytally or a server before it is unavailable or overloaded. */
  get isAway(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

const FIRST_REQUEST_STILL_RUNS = 40905;

/** Whether the same request may succeed a moment later. */
export function isPassing(error: unknown): error is KeytallyError {
  return error instanceof KeytallyError && (error.isAway || error.code === FIRST_REQUEST_STILL_RUNS);
}

/** Turns an answer into an error that is not a success, or is not from keytally. */
export function errorOf({ status, headers, text }: HttpAnswer): KeytallyError {
  const { error } = envelope(text);
  const requestId = headers.get('x-request-id') ?? undefined;
  const retryAfter = Number(headers.get('retry-after') ?? NaN);
  const {
    code = 0,
    message = `HTTP ${status}, but the answer is not from keytally; check the address`,
    details,
  } = error ?? {};
  return new KeytallyError(message, {
    status,
    code,
    ...(requestId && { requestId }),
    ...(details && { details }),
    ...(retryAfter >= 0 && { retryAfterSeconds: retryAfter }),
  });
}

// What keytally's Retry-After says with each 429 and 503 of a verification.
const RETRY_AFTER_SECONDS = 1;

/** The error of one verification of a batch, as it would be if that had been sent alone. */
export function errorInBatch({ code, message, details }: ErrorInBatch, requestId: string | undefined): KeytallyError {
  const status = Math.floor(code / 100);
  return new KeytallyError(message, {
    status,
    code,
    ...(requestId && { requestId }),
    ...(details && { details }),
    ...((status === 429 || status === 503) && { retryAfterSeconds: RETRY_AFTER_SECONDS }),
  });
}

function envelope(text: string): { error?: ErrorInBatch } {
  try {
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}
