import { windowOf, type CalendarWindow, type LimitPlace, type SlidingWindow } from '../stores/limits.ts';
import type { Span } from '../values/calendar.ts';
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
    const state = limit.sliding
      ? slidingState(limit, limit.sliding, { level: countedBy(i), clock })
      : calendarState(limit, limit.span, countedBy(i));
    const limitsRequests = limit.unit === 'requests' && !limit.shadow && (limit.usageName ?? usageName) === usageName;
    return { ...state, limitsRequests, ...(limit.shadow && { wouldRefuse: refusing.has(String(i + 1)) }) };
  });
}

type Clock = { ticks: number; tickZeroMs: number };

const TICKS_PER_MS = TICKS_PER_SECOND / 1_000;
const DAYS: Record<string, number> = { day: 1, week: 7 };

function calendarState(limit: KnownLimit, { startMs, endMs }: Span, count: number) {
  const { unit, count: units } = windowOf(limit.per) as CalendarWindow;
  // Days are not of one length where clocks change, and are called so.
  const days = DAYS[unit];
  const windowSeconds = days === undefined ? Math.round((endMs - startMs) / 1_000) : units * days * 86_400;
  const passesAt = (micros: number) => (micros > limit.limitMicros ? undefined : endMs);
  return { ...told(limit, count), resetAt: endMs, windowSeconds, passesAt };
}

function slidingState(limit: KnownLimit, { ms }: SlidingWindow, { level, clock }: { level: number; clock: Clock }) {
  const { ticks, tickZeroMs } = clock;
  const { limitMicros } = limit;
  const fallenAt = (micros: number) =>
    tickZeroMs + Math.ceil(ticks / TICKS_PER_MS + (Math.max(0, micros) / limitMicros) * ms);
  const passesAt = (micros: number) => (micros > limitMicros ? undefined : fallenAt(level + micros - limitMicros));
  return { ...told(limit, level), resetAt: fallenAt(level), windowSeconds: ms / 1_000, passesAt };
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
