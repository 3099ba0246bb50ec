type Details = { path: string; message: string }[];
type Fields = { status: number; code: number; requestId?: string; details?: Details; retryAfterSeconds?: number };

/** What a call fails with: an error that keytally answered, or no answer at all (status and code are 0 then). */
export class KeytallyError extends Error {
  override readonly name = 'KeytallyError';
  /** The HTTP status. */
  readonly status: number;
  /** The number from the catalogue of errors in keytally's README; 0 where another than keytally has answered. */
  readonly code: number;
  readonly requestId: string | undefined;
  /** What was wrong where, in a request that was not valid. */
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

  /** Whether nothing was decided: keytally, or something on the way to it, is away or overloaded for the moment. */
  get isAway(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

const FIRST_REQUEST_STILL_RUNS = 40905;

/** Whether the same request may succeed a moment later. */
export function isPassing(error: unknown): error is KeytallyError {
  return error instanceof KeytallyError && (error.isAway || error.code === FIRST_REQUEST_STILL_RUNS);
}

/** The error that an answer is. */
export function errorOf(response: Response, text: string): KeytallyError {
  const { status, headers } = response;
  const { error } = envelope(text);
  const requestId = headers.get('x-request-id') ?? undefined;
  const retryAfter = Number(headers.get('retry-after') ?? NaN);
  const { code = 0, message = `HTTP ${status}, and not by keytally: is the address right?`, details } = error ?? {};
  return new KeytallyError(message, {
    status,
    code,
    ...(requestId && { requestId }),
    ...(details && { details }),
    ...(retryAfter >= 0 && { retryAfterSeconds: retryAfter }),
  });
}

function envelope(text: string): { error?: { code: number; message: string; details?: Details } } {
  try {
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}
