import { refusals, type Refused } from './contract.ts';
import type { Status, Verification } from './status.ts';

export type { Refused };

export type Refusal = { status: number; headers: Record<string, string>; body: string };

// The rate limit is whole again after a second. Credits need a refill by a person, which takes longer.
const RETRY_SECONDS = 1;
const USAGE_RETRY_SECONDS = 60;

/** The answer to a refused request: an error envelope, with the headers that belong to its status. */
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

/** The reason to refuse a request, from its verification's status; `undefined` if it passes. */
export function refusedFor(status: Status, reason: string | undefined): Refused | undefined {
  if (status === 'VALID') return undefined;
  return reason === 'IP_NOT_ALLOWED' ? reason : status;
}

/** `RateLimit` of the current IETF draft, and the two older headers (the reset in Unix seconds). */
export function rateLimitHeaders(rateLimit: Verification['rateLimit'], nowMs: number): Record<string, string> {
  if (!rateLimit) return {};
  const { remaining, resetAt } = rateLimit;
  return {
    RateLimit: `"key";r=${remaining};t=${Math.max(0, Math.ceil((resetAt - nowMs) / 1000))}`,
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(Math.ceil(resetAt / 1000)),
  };
}
