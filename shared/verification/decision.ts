import type { Static } from 'typebox';
import { ApiError } from '../contract/errors.ts';
import type { limitedByLimit } from '../contract/limits.ts';
import { creditLimit, formatCredits, MAX_MICROS } from '../values/credits.ts';
import { costOf } from './call-fields.ts';
import { statesOf, type LimitState } from './limit-states.ts';
import { MICROS_OF_REQUEST } from '../stores/known-limits.ts';
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
  /** What may still be used of it: its limit, less what is used and held; undefined without a limit. */
  leftMicros?: number | undefined;
  rateLimit?: RateLimit | undefined;
  /** The limit that refused it. */
  limitedBy?: LimitedBy | undefined;
  /** The limits that only watch and would have refused it; not of a repeated Idempotency-Key, which is no new call. */
  wouldRefuse?: Pick<LimitState, 'on' | 'name'>[] | undefined;
};

type LimitedBy = Static<typeof limitedByLimit>;

/** The tightest limit on requests after a call: what is left, when it is whole again (Unix ms), and its window. */
export type RateLimit = { limit: number; remaining: number; resetAt: number; windowSeconds: number };

/** Makes the decision from an answer of the script and its lookup, and the JSON of its hold; throws where the script did not decide. */
export function decisionFrom(answer: ScriptAnswer, lookup: Lookup | undefined, body: VerifyBody, hold = ''): Decision {
  const { status, reason } = answer.fields;
  switch (status) {
    case 'CONFLICT':
      throw new ApiError('idempotency_mismatch');
    case 'CANCELLED':
      throw new ApiError('call_cancelled');
    case 'HOLDS_FULL':
      throw new ApiError('hold_limit_reached');
    case 'OUTBOX_FULL':
      throw new ApiError('outbox_full');
    case 'CLOSED':
    case 'LATE':
    case 'SEARCH':
    case 'AGAIN':
    case 'ELSEWHERE':
    case 'CORRUPT':
      throw new ApiError('undecided', { cause: new Error(`the verify script answered ${status} ${reason}`) });
  }
  if (reason === 'NOT_FOUND' || !lookup) return refusal(body, reason);

  const { keyPart } = lookup;
  const amounts = amountsIn(answer.fields.usedMicros, lookup);
  const perSecond = rateLimitOf(answer);
  const limits = answer.limits && lookup.limits && limitsOf(answer, lookup, perSecond, body);
  const isFirst = answer.limits?.askedAtTicks === '';
  const rateLimit = limits ? tightestOf(limits) : perSecond;
  const refusing = limitedByOf(answer, lookup, limits, perSecond);
  const micros = status === 'RATE_LIMITED' ? MICROS_OF_REQUEST : costOf(body);
  const limitedBy = refusing && toldOf(refusing, micros);

  // The parts of the key and of the billing record are ready-made; only what changes with each call is made here.
  const why = reason === 'CREDITS_USED_UP' && isCapped(lookup, amounts!) ? 'SPEND_CAP_REACHED' : reason;
  let json = `{"status":"${status}",${keyPart}`;
  if (why) json += `,"reason":"${why}"`;
  if (limitedBy) json += `,"limitedBy":${JSON.stringify(limitedBy)}`;
  if (body.requestedScopes) json += `,"requestedScopes":${JSON.stringify(body.requestedScopes)}`;
  if (amounts) json += `,"billing":{${billingPartOf(lookup, amounts)}}`;
  json += hold;
  if (rateLimit) json += `,"rateLimit":${rateLimitPart(rateLimit)}`;
  const listed = limits?.map(({ on, name, remaining, resetAt, wouldRefuse }) => {
    return { on, name, remaining, resetAt, wouldRefuse };
  });
  if (listed) json += `,"limits":${JSON.stringify(listed)}`;
  return {
    status: status as Status,
    reason: why,
    body: `${json}}`,
    lookup,
    leftMicros: amounts && leftOf(amounts),
    rateLimit,
    limitedBy,
    wouldRefuse: answer.limits?.wouldRefuse && isFirst ? limits?.filter((one) => one.wouldRefuse) : undefined,
  };
}

/** The answer for a secret that is no key of the caller's. */
export function refusal({ requestedScopes }: VerifyBody, reason: string): Decision {
  const body = JSON.stringify({ status: 'INVALID', reason, ...(requestedScopes && { requestedScopes }) });
  return { status: 'INVALID', reason, body };
}

type Amounts = {
  usedMicros: number;
  heldMicros: number;
  totalMicros: number;
  expiredMicros: number;
  limitMicros: number;
};

/** The amounts of a billing record after a call: of a plain one the script answers what is used, of an account all four. */
function amountsIn(field: string, { totalMicros, limitMicros, spending }: Lookup): Amounts | undefined {
  if (field === '') return undefined;
  if (!field.includes(' ')) {
    return { usedMicros: Number(field), heldMicros: 0, totalMicros, expiredMicros: 0, limitMicros };
  }
  const [used = 0, held = 0, total = 0, expired = 0] = field.split(' ').map(Number);
  const limit = creditLimit({ ...spending, totalMicros: total - expired });
  return { usedMicros: used, heldMicros: held, totalMicros: total, expiredMicros: expired, limitMicros: limit };
}

/** Whether the spend cap is what ends the use of a billing record, and not its credits. */
function isCapped({ spending }: Lookup, { totalMicros, expiredMicros }: Amounts): boolean {
  const { allowOverages, spendCapMicros } = spending;
  return spendCapMicros !== null && (allowOverages || spendCapMicros < totalMicros - expiredMicros);
}

function leftOf({ limitMicros, usedMicros, heldMicros }: Amounts): number | undefined {
  return limitMicros === MAX_MICROS ? undefined : limitMicros - usedMicros - heldMicros;
}

/** The billing record in an answer, without the braces: total = used + available + held + expired. */
export function billingPartOf(
  { billingPart, totalMicros: known }: Pick<Lookup, 'billingPart' | 'totalMicros'>,
  amounts: Omit<Amounts, 'limitMicros'>,
): string {
  const { usedMicros, heldMicros, totalMicros, expiredMicros } = amounts;
  const available = formatCredits(totalMicros - usedMicros - heldMicros - expiredMicros);
  const used = formatCredits(usedMicros);
  const held = heldMicros === 0 ? '0' : formatCredits(heldMicros);
  const expired = expiredMicros === 0 ? '0' : formatCredits(expiredMicros);
  // The total of an account changes without its settings. No text of the part holds an unescaped quote before it.
  const settings =
    totalMicros === known
      ? billingPart
      : billingPart.replace(/"totalCredits":"[^"]*"/, `"totalCredits":"${formatCredits(totalMicros)}"`);
  return `${settings},"usedCredits":"${used}","availableCredits":"${available}","heldCredits":"${held}","expiredCredits":"${expired}"`;
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
    windowSeconds: 1,
  };
}

/** The limits of a call after it; `rateLimitPerSecond` is one of them. */
function limitsOf(answer: ScriptAnswer, lookup: Lookup, perSecond: RateLimit | undefined, body: VerifyBody) {
  const states = statesOf(answer, lookup.limits!.list, body.billing?.usageName ?? 'default');
  return perSecond ? [perSecondState(lookup, perSecond), ...states] : states;
}

function perSecondState({ rateOn }: Lookup, rate: RateLimit): LimitState {
  const passesAt = () => rate.resetAt;
  return { on: rateOn, name: 'rateLimitPerSecond', ...rate, limitsRequests: true, passesAt };
}

function tightestOf(limits: readonly LimitState[]): RateLimit | undefined {
  const [tightest] = limits
    .filter(({ limitsRequests }) => limitsRequests)
    .toSorted((a, b) => Number(a.remaining) - Number(b.remaining) || b.resetAt - a.resetAt);
  if (!tightest) return undefined;
  const { limit, remaining, resetAt, windowSeconds } = tightest;
  return { limit: Number(limit), remaining: Number(remaining), resetAt, windowSeconds };
}

/** The limit that refused a call. */
function limitedByOf(
  { fields: { reason }, limits: told }: ScriptAnswer,
  lookup: Lookup,
  limits: LimitState[] | undefined,
  perSecond: RateLimit | undefined,
): LimitState | undefined {
  if (reason !== 'RATE_LIMIT' && reason !== 'LIMIT_REACHED') return undefined;
  if (!told?.limitedBy || !limits) return perSecond && perSecondState(lookup, perSecond);
  return limits[Number(told.limitedBy) - (perSecond ? 0 : 1)];
}

// What costs more than the whole limit never passes: then there is no instant to wait for.
function toldOf({ on, name, limit, resetAt, passesAt }: LimitState, micros: number): LimitedBy {
  const retryAt = passesAt(micros);
  return { on, name, limit, ...(retryAt !== undefined && { resetAt, retryAt }) };
}

function rateLimitPart({ remaining, resetAt, limit, windowSeconds }: RateLimit): string {
  return `{"remaining":${remaining},"resetAt":${resetAt},"limit":${limit},"windowSeconds":${windowSeconds}}`;
}
