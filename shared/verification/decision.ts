import type { Static } from 'typebox';
import { formatCredits, parseCredits } from '../values/credits.ts';
import { ApiError } from '../contract/errors.ts';
import type { Finding } from './lookup-cache.ts';
import type { Said } from './script-batches.ts';
import type { billing } from '../contract/schemas.ts';
import type { Status, VerifyBody } from './operation.ts';

/** A decided verification: its status, why it was refused (or ''), and the whole answer as JSON text. */
export type Decision = { status: Status; reason: string; body: string; found?: Found };

/** What the script found of a key that the caller may know of. */
export type Found = {
  finding: Finding;
  /** Used credits of the billing record after this call; undefined without one. */
  usedMicros: number | undefined;
  /** The number that this call's debit has in the epoch of the finding; undefined where it made none. */
  sequence: number | undefined;
  rateLimit: { limit: number; remaining: number; resetAt: number } | undefined;
};

/** What the verify script said of a call, by the finding that it went by; throws where that is no decision. */
export function decisionFrom(said: Said, finding: Finding | undefined, body: VerifyBody): Decision {
  const [status = '', reason = '', used = '', number = '', limit = '', arrival, ticksThen] = said.fields.split('\x1f');
  switch (status) {
    case 'CONFLICT':
      throw new ApiError('idempotency_mismatch');
    case 'OUTBOX_FULL':
      throw new ApiError('outbox_full');
    case 'CLOSED':
    case 'LATE':
    case 'CORRUPT':
      throw new ApiError('undecided', { cause: new Error(`the verify script answered ${status} ${reason}`) });
  }
  if (reason === 'NOT_FOUND' || !finding) return refusal(body, reason);

  const { head, billingPart } = finding;
  const usedMicros = used === '' ? undefined : Number(used);
  const sequence = number === '' ? undefined : Number(number);
  const rateLimit =
    arrival === undefined
      ? undefined
      : limitAfter(Number(limit), Number(arrival), Number(ticksThen ?? said.ticks), said);

  // The parts of the key and of the billing record were made when they were stored; only what changes is made here.
  const why = reason === 'CREDITS_USED_UP' && isCapped(billingPart) ? 'SPEND_CAP_REACHED' : reason;
  let json = `{"status":"${status}",${head}`;
  if (why) json += `,"reason":"${why}"`;
  if (body.requestedScopes) json += `,"requestedScopes":${JSON.stringify(body.requestedScopes)}`;
  if (usedMicros !== undefined) json += `,"billing":{${billingPart},"usedCredits":"${formatCredits(usedMicros)}"}`;
  if (rateLimit) json += `,"rateLimit":{"remaining":${rateLimit.remaining},"resetAt":${rateLimit.resetAt}}`;
  return {
    status: status as Status,
    reason: why,
    body: `${json}}`,
    found: { finding, usedMicros, sequence, rateLimit },
  };
}

/** The answer for what is no key of the caller's. */
export function refusal({ requestedScopes }: VerifyBody, reason: string): Decision {
  const body = JSON.stringify({ status: 'INVALID', reason, ...(requestedScopes && { requestedScopes }) });
  return { status: 'INVALID', reason, body };
}

// As in verify.lua.
const TICKS_PER_SECOND = 8e6;
const TICKS_PER_MS = TICKS_PER_SECOND / 1_000;

// What is left of this second's allowance, and when it is whole again: GCRA's theoretical arrival time lies one interval
// ahead of now for each call that was let through.
function limitAfter(limit: number, arrival: number, now: number, at: Said) {
  const interval = Math.ceil(TICKS_PER_SECOND / limit);
  const beganMs = at.nowMs - Math.floor(at.ticks / TICKS_PER_MS);
  return {
    limit,
    remaining: Math.max(0, limit - Math.ceil((arrival - now) / interval)),
    resetAt: beganMs + Math.ceil(arrival / TICKS_PER_MS),
  };
}

// Whether what a billing record may use ends at its spend cap, and not at the credits that were bought.
function isCapped(billingPart: string): boolean {
  const record = JSON.parse(`{${billingPart}}`) as Pick<
    Static<typeof billing>,
    'totalCredits' | 'allowOverages' | 'spendCap'
  >;
  const cap = parseCredits(record.spendCap ?? '');
  return cap !== undefined && (record.allowOverages || cap < parseCredits(record.totalCredits)!);
}
