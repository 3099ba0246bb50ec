import { ApiError } from '../contract/errors.ts';
import { formatCredits } from '../values/credits.ts';
import type { Lookup } from './lookup-cache.ts';
import type { Status, VerifyBody } from './operation.ts';
import { TICKS_PER_SECOND, type ScriptAnswer } from './script-protocol.ts';

/** A decided verification. */
export type Decision = {
  status: Status;
  /** Why it was refused, or ''. */
  reason: string;
  /** The whole answer as JSON text. */
  body: string;
  /** What is known of the key; undefined where the caller has no such key. */
  lookup?: Lookup;
  /** Used credits of the billing record after this call; undefined without one. */
  usedMicros?: number | undefined;
  /** The sequence number of this call's debit in the epoch of the lookup; undefined where it made none. */
  sequence?: number | undefined;
  rateLimit?: RateLimit | undefined;
};

/** The rate limit of a key after a call: what is left of this second's allowance, and when it is whole again (Unix ms). */
export type RateLimit = { limit: number; remaining: number; resetAt: number };

/** Makes the decision from an answer of the script and its lookup; throws where the script did not decide. */
export function decisionFrom(answer: ScriptAnswer, lookup: Lookup | undefined, body: VerifyBody): Decision {
  const { status, reason } = answer.fields;
  switch (status) {
    case 'CONFLICT':
      throw new ApiError('idempotency_mismatch');
    case 'OUTBOX_FULL':
      throw new ApiError('outbox_full');
    case 'CLOSED':
    case 'LATE':
    case 'SEARCH':
    case 'ELSEWHERE':
    case 'CORRUPT':
      throw new ApiError('undecided', { cause: new Error(`the verify script answered ${status} ${reason}`) });
  }
  if (reason === 'NOT_FOUND' || !lookup) return refusal(body, reason);

  const { keyPart, billingPart } = lookup;
  const usedMicros = numberIn(answer.fields.usedMicros);
  const sequence = numberIn(answer.fields.sequence);
  const rateLimit = rateLimitOf(answer);

  // The parts of the key and of the billing record are ready-made; only what changes with each call is made here.
  const why = reason === 'CREDITS_USED_UP' && lookup.isCapped ? 'SPEND_CAP_REACHED' : reason;
  let json = `{"status":"${status}",${keyPart}`;
  if (why) json += `,"reason":"${why}"`;
  if (body.requestedScopes) json += `,"requestedScopes":${JSON.stringify(body.requestedScopes)}`;
  if (usedMicros !== undefined) json += `,"billing":{${billingPart},${amountsPart(lookup.totalMicros, usedMicros)}}`;
  if (rateLimit) json += `,"rateLimit":{"remaining":${rateLimit.remaining},"resetAt":${rateLimit.resetAt}}`;
  return { status: status as Status, reason: why, body: `${json}}`, lookup, usedMicros, sequence, rateLimit };
}

/** The answer for a secret that is no key of the caller's. */
export function refusal({ requestedScopes }: VerifyBody, reason: string): Decision {
  const body = JSON.stringify({ status: 'INVALID', reason, ...(requestedScopes && { requestedScopes }) });
  return { status: 'INVALID', reason, body };
}

// total = used + available + held + expired.
function amountsPart(totalMicros: number, usedMicros: number): string {
  const available = formatCredits(totalMicros - usedMicros);
  return `"usedCredits":"${formatCredits(usedMicros)}","availableCredits":"${available}","heldCredits":"0","expiredCredits":"0"`;
}

function numberIn(field: string): number | undefined {
  return field === '' ? undefined : Number(field);
}

const TICKS_PER_MS = TICKS_PER_SECOND / 1_000;

// GCRA: the theoretical arrival time lies one interval ahead of now for each call that passed.
function rateLimitOf({ nowMs, nowTicks, fields }: ScriptAnswer): RateLimit | undefined {
  if (fields.arrivalTicks === '') return undefined;
  const limit = Number(fields.ratePerSecond);
  const arrival = Number(fields.arrivalTicks);
  const askedAt = fields.askedAtTicks === '' ? nowTicks : Number(fields.askedAtTicks);
  const interval = Math.ceil(TICKS_PER_SECOND / limit);
  const tickZeroMs = nowMs - Math.floor(nowTicks / TICKS_PER_MS);
  return {
    limit,
    remaining: Math.max(0, limit - Math.ceil((arrival - askedAt) / interval)),
    resetAt: tickZeroMs + Math.ceil(arrival / TICKS_PER_MS),
  };
}
