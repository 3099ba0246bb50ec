import { displayForms, type Status, type Verification } from './status.ts';

/** Why a request is refused: its key's status, or what kept a key from being verified. */
export type Refused = Exclude<Status, 'VALID'> | 'IP_NOT_ALLOWED' | 'NO_KEY' | 'TWO_KEYS' | 'AWAY';
export type Refusal = { status: number; headers: Record<string, string>; body: string };

/** Their places in keytally's catalogue of errors: a number is never reused, and never gets another meaning. */
export const refusals: Record<Refused, readonly [code: number, message: string]> = {
  NO_KEY: [40110, 'Send an API key, as Authorization: Bearer, x-api-key or Authorization: Basic.'],
  TWO_KEYS: [40111, 'Send one API key: this request has more, or both parts of Authorization: Basic.'],
  INVALID: [40112, `${displayForms.INVALID}: this is no API key of this service.`],
  EXPIRED: [40113, `${displayForms.EXPIRED}: the API key has expired.`],
  DISABLED: [40114, `${displayForms.DISABLED}: the API key is disabled.`],
  DELETED: [40115, `${displayForms.DELETED}: the API key was deleted.`],
  INVALID_SCOPES: [40310, `${displayForms.INVALID_SCOPES}: the API key was not granted what this request needs.`],
  IP_NOT_ALLOWED: [40311, `${displayForms.INVALID}: the API key is not valid from this address.`],
  RATE_LIMITED: [42910, `${displayForms.RATE_LIMITED}: a temporary block, too many requests in this second.`],
  USAGE_LIMITED: [42911, `${displayForms.USAGE_LIMITED}: a temporary block, the credits do not cover this request.`],
  AWAY: [50311, 'The API key can not be verified at the moment; repeat the request.'],
};

// A second's allowance is whole again after a second; credits come by a refill, which takes people longer.
const RETRY_SECONDS = 1;
const USAGE_RETRY_SECONDS = 60;

/** The answer to a request that may not pass: an error envelope, with the headers that belong to its status. */
export function refusalOf(refused: Refused, requestId: string): Refusal {
  const [code, message] = refusals[refused];
  const status = Math.floor(code / 100);
  const retryAfter = refused === 'USAGE_LIMITED' ? USAGE_RETRY_SECONDS : RETRY_SECONDS;
  return {
    status,
    headers: {
      'Content-Type': 'application/json',
      'X-Request-Id': requestId,
      ...(status === 401 && { 'WWW-Authenticate': 'Bearer' }),
      ...((status === 429 || status === 503) && { 'Retry-After': String(retryAfter) }),
    },
    body: JSON.stringify({ error: { code, message, requestId } }),
  };
}

/** What a verification's status refuses a request for; `undefined` when it passes. */
export function refusedFor(status: Status, reason: string | undefined): Refused | undefined {
  if (status === 'VALID') return undefined;
  return reason === 'IP_NOT_ALLOWED' ? reason : status;
}

/** `RateLimit` of the current IETF draft, and the two older headers (the reset as Unix seconds). */
export function rateLimitHeaders(rateLimit: Verification['rateLimit'], nowMs: number): Record<string, string> {
  if (!rateLimit) return {};
  const { remaining, resetAt } = rateLimit;
  return {
    RateLimit: `"key";r=${remaining};t=${resetAt > nowMs ? 1 : 0}`,
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(Math.ceil(resetAt / 1000)),
  };
}
