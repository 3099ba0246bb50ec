import { slidingWindows, type LimitPlace, type SlidingUnit } from '../stores/limits.ts';
import { formatCredits } from '../values/credits.ts';
import { MICROS_OF_REQUEST, type KnownLimit } from '../stores/known-limits.ts';
import { TICKS_PER_SECOND, type ScriptAnswer } from './script-protocol.ts';

/** A limit after a call. */
export type LimitState = {
  on: LimitPlace;
  name: string;
  /** As it was set. */
  limit: number | string;
  /** Requests, or decimal text of credits. */
  remaining: number | string;
  /** When the allowance is whole again, in Unix ms. */
  resetAt: number;
  windowSeconds: number;
  /** Whether it could have refused this call: it counts requests of this usage name, and does not only watch. */
  limitsRequests: boolean;
  /** When so much more passes again, in Unix ms; undefined where it never does. */
  passesAt(micros: number): number | undefined;
  /** Of one that only watches: whether it would have refused this call. */
  wouldRefuse?: boolean;
};

/** The limits of a call after it, in their order. */
export function statesOf(answer: ScriptAnswer, list: readonly KnownLimit[], usageName: string): LimitState[] {
  const { wouldRefuse, askedAtTicks, levels } = answer.limits!;
  const askedAt = askedAtTicks === '' ? answer.nowTicks : Number(askedAtTicks);
  const clock = { ticks: askedAt, tickZeroMs: answer.nowMs - Math.floor(answer.nowTicks / TICKS_PER_MS) };
  const counted = levels.split(' ').map(Number);
  // Limits that were set since the first call of an Idempotency-Key had counted nothing for it.
  const countedBy = (i: number) => counted[i] ?? 0;
  const refusing = new Set(wouldRefuse.split(' '));
  return list.map((limit, i) => {
    const state = limit.span ? calendarState(limit, countedBy(i)) : slidingState(limit, countedBy(i), clock);
    const limitsRequests = limit.unit === 'requests' && !limit.shadow && (limit.usageName ?? usageName) === usageName;
    return { ...state, limitsRequests, ...(limit.shadow && { wouldRefuse: refusing.has(String(i + 1)) }) };
  });
}

type Clock = { ticks: number; tickZeroMs: number };

const TICKS_PER_MS = TICKS_PER_SECOND / 1_000;
const SECONDS = { second: 1, minute: 60, hour: 3_600, day: 86_400, week: 604_800 } as const;

function calendarState(limit: KnownLimit, count: number) {
  const { startMs, endMs } = limit.span!;
  const windowSeconds = limit.per === 'month' ? Math.round((endMs - startMs) / 1_000) : SECONDS[limit.per];
  const passesAt = (micros: number) => (micros > limit.limitMicros ? undefined : endMs);
  return { ...told(limit, count), resetAt: endMs, windowSeconds, passesAt };
}

function slidingState(limit: KnownLimit, level: number, { ticks, tickZeroMs }: Clock) {
  const { ms } = slidingWindows[limit.per as SlidingUnit];
  const { limitMicros } = limit;
  const fallenAt = (micros: number) =>
    tickZeroMs + Math.ceil(ticks / TICKS_PER_MS + (Math.max(0, micros) / limitMicros) * ms);
  const passesAt = (micros: number) => (micros > limitMicros ? undefined : fallenAt(level + micros - limitMicros));
  const windowSeconds = SECONDS[limit.per as SlidingUnit];
  return { ...told(limit, level), resetAt: fallenAt(level), windowSeconds, passesAt };
}

function told({ on, name, limit, unit, limitMicros }: KnownLimit, countedMicros: number) {
  const left = Math.max(0, limitMicros - countedMicros);
  return {
    on,
    name,
    limit,
    remaining: unit === 'requests' ? Math.floor(left / MICROS_OF_REQUEST) : formatCredits(left),
  };
}
