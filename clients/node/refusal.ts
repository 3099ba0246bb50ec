import { refusals, type Decision as Verification, type Refused } from './contract.ts';

export type { Refused };

/** Why a request is refused, for a body of your own. */
export type Refusal = {
  status: number;
  /** Of keytally's catalogue of errors. */
  code: number;
  /** For programs. */
  reason: Refused;
  message: string;
  requestId: string;
  /** When to come again; `undefined` where that would not help. */
  retryAfterSeconds: number | undefined;
  /** The limit that refused it. */
  limitedBy: Verification['limitedBy'] | undefined;
};
/** A body, and its `Content-Type`. */
export type RefusalBody = { type: string; body: string };
export type Answer = { status: number; headers: Record<string, string>; body: string };

type LimitedBy = Verification['limitedBy'];
type Decision = Pick<Verification, 'status'> & { reason?: string; limitedBy?: LimitedBy | undefined };

const RETRY_SECONDS = 1;
// Credits need a refill by a person, which takes longer.
const USAGE_RETRY_SECONDS = 60;

// Waiting alone ends none of these: they have 429 only for who asks for it.
const lasting = new Set<Refused>(['CREDITS_USED_UP', 'SPEND_CAP_REACHED', 'NO_BILLING_RECORD', 'COST_ABOVE_LIMIT']);

/** The answer to a refused request, in the envelope of errors or the body that `bodyOf` makes. */
export function refusalOf(
  reason: Refused,
  asked: {
    requestId: string;
    nowMs: number;
    limitedBy?: LimitedBy | undefined;
    outOfCredits?: 429 | undefined;
    bodyOf?: ((refusal: Refusal) => RefusalBody) | undefined;
  },
): Answer {
  const { requestId, nowMs, limitedBy, outOfCredits, bodyOf = envelope } = asked;
  const name = outOfCredits && lasting.has(reason) ? 'USAGE_LIMITED' : reason;
  const [code, text] = refusals[name];
  const status = Math.floor(code / 100);
  const message = limitedBy ? `${text} Limit: ${limitedBy.name}.` : text;
  const retryAfterSeconds =
    status === 429 || status === 503 ? secondsUntil(limitedBy?.retryAt, name, nowMs) : undefined;
  const { type, body } = bodyOf({ status, code, reason, message, requestId, retryAfterSeconds, limitedBy });
  return {
    status,
    headers: {
      'Content-Type': type,
      'X-Request-Id': requestId,
      ...(status === 401 && { 'WWW-Authenticate': 'Bearer' }),
      ...(retryAfterSeconds !== undefined && { 'Retry-After': String(retryAfterSeconds) }),
    },
    body,
  };
}

function secondsUntil(retryAt: number | undefined, name: Refused, nowMs: number): number {
  if (retryAt !== undefined) return Math.max(1, Math.ceil((retryAt - nowMs) / 1000));
  return name === 'USAGE_LIMITED' ? USAGE_RETRY_SECONDS : RETRY_SECONDS;
}

function envelope({ code, message, requestId, reason, limitedBy }: Refusal): RefusalBody {
  const error = { code, message, requestId, reason, ...(limitedBy && { limit: limitedBy.name }) };
  return { type: 'application/json', body: JSON.stringify({ error }) };
}

/** Problem details (RFC 9457), for the guards' option `refusalBody`. */
export function problemJson({ status, code, message, requestId, reason, limitedBy }: Refusal): RefusalBody {
  const of = { code, requestId, reason, ...(limitedBy && { limit: limitedBy.name }) };
  return { type: 'application/problem+json', body: JSON.stringify({ status, title: message, ...of }) };
}

/** The reason to refuse a request, from its verification; `undefined` if it passes. */
export function refusedFor({ status, reason = '', limitedBy }: Decision): Refused | undefined {
  if (status === 'VALID') return undefined;
  if (status === 'RATE_LIMITED' && limitedBy && limitedBy.name !== 'rateLimitPerSecond') return 'REQUESTS_USED_UP';
  if (reason === 'LIMIT_REACHED' && limitedBy && limitedBy.retryAt === undefined) return 'COST_ABOVE_LIMIT';
  return [reason, status].find((name): name is Refused => Object.hasOwn(refusals, name)) ?? 'FAILED';
}

/** `RateLimit` and `RateLimit-Policy` of the current IETF draft, and the three older headers (the reset in Unix seconds). */
export function rateLimitHeaders(rateLimit: Verification['rateLimit'], nowMs: number): Record<string, string> {
  if (!rateLimit) return {};
  const { remaining, resetAt, limit, windowSeconds } = rateLimit;
  return {
    RateLimit: `"key";r=${remaining};t=${Math.max(0, Math.ceil((resetAt - nowMs) / 1000))}`,
    'RateLimit-Policy': `"key";q=${limit};w=${windowSeconds}`,
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(Math.ceil(resetAt / 1000)),
  };
}
