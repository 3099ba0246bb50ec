// Periods of usage: hours, days, weeks and months of a time zone. They are computed here, where time zones are known to the
// day, and the books are asked by instants on quarter hours, which no zone of today divides.
import { inZone, startOf, windowAt } from './calendar.ts';

export const intervals = ['hour', 'day', 'week', 'month'] as const;
export type Interval = (typeof intervals)[number];

export const QUARTER_MS = 900_000;
export const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const QUARTERS_OF_DAY = DAY_MS / QUARTER_MS;
// The books store no later day.
const LAST_DAY = 65_535;

/**
 * Periods without a hole: number `i` has the quarter hours, counted from 1970, from `quarters[i]` up to before
 * `quarters[i + 1]`, and what is booked on a day itself, of the days since 1970 from `days[i]` up to before `days[i + 1]`.
 * `whole` is where the first one would begin and the last one end if they were not cut, in quarter hours too.
 */
export type Periods = { timezone: string; quarters: number[]; days: number[]; whole?: [number, number] };

/** What is divided into periods: from an instant up to another one, both in Unix ms; without an interval it stays whole. */
export type Divided = { startMs: number; endMs: number; timezone: string; interval?: Interval | undefined };

/**
 * Divides a span. Its first and last period are cut where it begins and ends. One without an instant, as a day that a zone skipped,
 * is one period that has nothing.
 */
export function periodsOf({ startMs, endMs, timezone, interval }: Divided): Periods {
  const clock = clockOf(timezone);
  const cuts = [startMs];
  for (const atMs of beginningsAfter(startMs, clock, interval)) {
    if (atMs >= endMs) break;
    cuts.push(atMs);
  }
  const quarters: number[] = [];
  const days: number[] = [];
  for (const cutMs of [...cuts, endMs]) {
    const quarter = quarterOf(cutMs);
    if (quarter === quarters.at(-1) && startMs < endMs) continue;
    quarters.push(quarter);
    days.push(Math.min(firstDayFrom(cutMs, clock), LAST_DAY));
  }
  const [wholeEndMs = endMs] = beginningsAfter(endMs - 1, clock, interval);
  return {
    timezone,
    quarters,
    days,
    whole: [quarterOf(wholeStart(startMs, clock, interval)), quarterOf(wholeEndMs)],
  };
}

/** How many periods there are. */
export function countPeriods({ quarters }: Periods): number {
  return quarters.length - 1;
}

/** The periods from number `first` on, and before number `end`, as the books are asked. */
export function somePeriods({ timezone, quarters, days }: Periods, first: number, end: number): Periods {
  return { timezone, quarters: quarters.slice(first, end + 1), days: days.slice(first, end + 1) };
}

/** The quarter hours in which periods begin, the first one as if it were not cut. */
export function wholeStarts({ quarters, whole }: Periods): number[] {
  return [whole?.[0] ?? quarters[0]!, ...quarters.slice(1, -1)];
}

/** When each period begins, in RFC 3339 with the offset of the zone, the first one as if it were not cut. */
export function startTexts(periods: Periods): string[] {
  const starts = wholeStarts(periods).map((quarter) => quarter * QUARTER_MS);
  return momentTexts(starts, periods.timezone);
}

/** The numbers of the periods that are cut: the first one, the last one, both or none. */
export function cutPeriods(periods: Periods): number[] {
  const { quarters, whole = quarters } = periods;
  const last = countPeriods(periods) - 1;
  return [...(whole[0]! < quarters[0]! ? [0] : []), ...(whole.at(-1)! > quarters.at(-1)! ? [last] : [])];
}

/** Moments, in Unix ms and in their order, as RFC 3339 with the offset of the zone. */
export function momentTexts(moments: readonly number[], timezone: string): string[] {
  const { spanAt } = clockOf(timezone);
  return moments.map((ms) => {
    const { offsetMs, offset } = spanAt(ms);
    return `${new Date(ms + offsetMs).toISOString().slice(0, -'.000Z'.length)}${offset}`;
  });
}

/** Whether every period consists of whole days in UTC, which are its days. */
export function areDaysOfUtc({ quarters, days }: Periods): boolean {
  return quarters.every((quarter, i) => quarter === days[i]! * QUARTERS_OF_DAY);
}

/** The days in UTC, since 1970, that have something of the periods, both included. */
export function daysTouched({ quarters, days }: Periods): { first: number; last: number } {
  const first = Math.floor(quarters[0]! / QUARTERS_OF_DAY);
  const last = Math.floor((quarters.at(-1)! - 1) / QUARTERS_OF_DAY);
  return { first: Math.min(first, days[0]!), last: Math.min(LAST_DAY, Math.max(last, days.at(-1)! - 1)) };
}

/** The days of UTC from one date to another, both included. */
export function daysOfUtc(first: string, last: string): Periods {
  const from = dayNumber(first);
  const days = Array.from({ length: dayNumber(last) - from + 2 }, (_, i) => from + i);
  return { timezone: 'UTC', quarters: days.map((day) => day * QUARTERS_OF_DAY), days };
}

/** The first instant, in Unix ms, of a date (YYYY-MM-DD) in a zone, or of the date so many days later. */
export function startOfDate(date: string, timezone: string, daysLater = 0): number {
  return startOf(Temporal.PlainDate.from(date).add({ days: daysLater }), timezone);
}

/** The date (YYYY-MM-DD) that clocks of a zone show at an instant in Unix ms. */
export function dateAt(ms: number, timezone: string): string {
  return inZone(ms, timezone).toPlainDate().toString();
}

/** The date of a number of days since 1970, and the number of a date. */
export function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
export function dayNumber(date: string): number {
  return Date.parse(date) / DAY_MS;
}

function quarterOf(ms: number): number {
  return Math.floor(ms / QUARTER_MS);
}

type Clock = ReturnType<typeof clockOf>;

/** The clocks of a zone. They are seldom changed, so what is known from one instant up to the next change is kept: to ask takes microseconds. */
function clockOf(timezone: string) {
  let span = { fromMs: 0, toMs: 0, offsetMs: 0, offset: '' };

  function spanAt(ms: number): typeof span {
    if (ms >= span.fromMs && ms < span.toMs) return span;
    const at = inZone(ms, timezone);
    span = {
      fromMs: ms,
      toMs: at.getTimeZoneTransition('next')?.epochMilliseconds ?? Infinity,
      offsetMs: at.offsetNanoseconds / 1_000_000,
      offset: at.toString({ timeZoneName: 'never' }).slice(-'+00:00'.length),
    };
    return span;
  }

  return {
    timezone,
    spanAt,
    /** The first instant of a day, counted from 1970. */
    startOfDay(day: number): number {
      const { fromMs, toMs, offsetMs } = spanAt(day * DAY_MS);
      const atMs = day * DAY_MS - offsetMs;
      // No change is so large that clocks showed it before, too.
      if (atMs >= fromMs + DAY_MS && atMs < toMs) return atMs;
      return startOf(Temporal.PlainDate.from(dateOf(day)), timezone);
    },
  };
}

/** The first day, since 1970, that begins in a zone at an instant or after it. */
function firstDayFrom(atMs: number, clock: Clock): number {
  const day = Math.floor((atMs + clock.spanAt(atMs).offsetMs) / DAY_MS);
  return clock.startOfDay(day) < atMs ? day + 1 : day;
}

/** Where periods begin after an instant. Hours are full ones of the clocks, and begin where these are changed, too. */
function* beginningsAfter(atMs: number, clock: Clock, interval: Interval | undefined): Generator<number> {
  if (interval === undefined) return;
  if (interval === 'hour') for (let hourMs = atMs; ;) yield (hourMs = hourAfter(hourMs, clock));
  let date = inZone(windowAt(interval, clock.timezone, atMs).endMs, clock.timezone).toPlainDate();
  for (; ; date = date.add({ [`${interval}s`]: 1 })) yield clock.startOfDay(dayNumber(date.toString()));
}

function hourAfter(atMs: number, clock: Clock): number {
  const { offsetMs, toMs } = clock.spanAt(atMs);
  return Math.min((Math.floor((atMs + offsetMs) / HOUR_MS) + 1) * HOUR_MS - offsetMs, toMs);
}

function wholeStart(atMs: number, clock: Clock, interval: Interval | undefined): number {
  if (interval === undefined) return atMs;
  if (interval !== 'hour') return windowAt(interval, clock.timezone, atMs).startMs;
  let startMs = atMs - 2 * HOUR_MS;
  for (let next = startMs; next <= atMs; next = hourAfter(next, clock)) startMs = next;
  return startMs;
}
