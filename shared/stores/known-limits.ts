import type { Limit } from '../contract/limits.ts';
import { windowAt, type Span } from '../values/calendar.ts';
import { parseCredits } from '../values/credits.ts';
import { END } from './fields.ts';
import { counterName, hashName, windowOf, type CalendarWindow, type LimitPlace, type SlidingWindow } from './limits.ts';

// Limits with their windows at a time, and their counters as Redis keeps them (lua/parts/limits.lua). A request counts a million, so
// all amounts are micro-credits.

/** A limit, with its window as it is now. */
export type KnownLimit = Limit & {
  on: LimitPlace;
  counter: string;
  limitMicros: number;
} & (
    | { span: Span; sliding?: never }
    /** Where the window is none of the calendar. */
    | { span?: never; sliding: SlidingWindow }
  );

export const MICROS_OF_REQUEST = 1_000_000;

/** The limits of a place, with their windows at a time. */
export function knownLimits(on: LimitPlace, limits: readonly Limit[], nowMs: number): KnownLimit[] {
  return limits.map((limit) => ({
    ...limit,
    on,
    counter: counterName(on, limit),
    limitMicros: typeof limit.limit === 'number' ? limit.limit * MICROS_OF_REQUEST : parseCredits(limit.limit)!,
    ...windowAtTime(limit, nowMs),
  }));
}

/** What a call costs a limit that counts it. */
export function amountOf({ unit }: KnownLimit, { events, micros }: { events: number; micros: number }): number {
  return unit === 'requests' ? events * MICROS_OF_REQUEST : micros;
}

const HOUR_MS = 3_600_000;
// Where the script's units of time begin (lua/parts/time.lua).
const BASE_MS = 1_735_689_600_000;

/** Counters as the script keeps them (lua/parts/limits.lua), which had counted so much at a time, and for how long it keeps them. */
export function packCounters(limits: readonly KnownLimit[], levels: readonly number[], nowMs: number) {
  const neededMs = Math.max(nowMs + HOUR_MS, ...endsOf(limits));
  const numbers = limits.flatMap(({ span, sliding, limitMicros }, i) => {
    if (span) return [levels[i]!, span.startMs, limitMicros, span.startMs];
    return [levels[i]!, Math.ceil(((nowMs - BASE_MS) * 1_000) / sliding.unitMicros), limitMicros, sliding.mark];
  });
  const packed = new DataView(new ArrayBuffer(8 * (numbers.length + 2)));
  for (const [i, number] of [neededMs + HOUR_MS, Math.max(0, ...endsOf(limits)), ...numbers].entries())
    packed.setFloat64(8 * i, number, true);
  const text = Buffer.concat([Buffer.from(headOf(limits) + END), Buffer.from(packed.buffer)]);
  return { text, restMs: neededMs + HOUR_MS - nowMs };
}

/** When the windows of the calendar end, in ms. */
export function endsOf(list: readonly KnownLimit[]): number[] {
  return list.flatMap(({ span }) => (span ? [span.endMs] : []));
}

// Many keys have the same windows; there are some 600 zones.
const MOST_SPANS = 2_000;
const spans = new Map<string, Span>();

function windowAtTime({ per, timezone = 'UTC' }: Limit, nowMs: number) {
  const window = windowOf(per);
  return 'ms' in window ? { sliding: window } : { span: spanAt(window, timezone, nowMs) };
}

function spanAt({ unit, count }: CalendarWindow, timezone: string, nowMs: number): Span {
  const name = `${count} ${unit} ${timezone}`;
  const known = spans.get(name);
  if (known && nowMs >= known.startMs && nowMs < known.endMs) return known;
  const span = windowAt(unit, timezone, nowMs, count);
  if (spans.size >= MOST_SPANS) spans.clear();
  spans.set(name, span);
  return span;
}

/** The names of the counters of a place, and of their settings: counters with this head are not read from a call again. */
export function headOf(limits: readonly KnownLimit[]): string {
  if (limits.length === 0) return '';
  return limits.map(({ counter }) => counter).join('') + hashName(packSettings(limits));
}

/** What the script takes in with a new head: until when the windows of the calendar run, and of each limit the most and its window. */
export function packSettings(limits: readonly KnownLimit[]): string {
  if (limits.length === 0) return '';
  const windows = limits.flatMap(({ limitMicros, span, sliding }) => [limitMicros, span?.startMs ?? sliding!.mark]);
  return [Math.max(0, ...endsOf(limits)), ...windows].join(END) + END;
}
