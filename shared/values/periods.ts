// Periods of usage: hours, days, weeks and months of a time zone. They are computed here, where time zones are known to the
// day, and the books are asked by instants on quarter hours, which no zone of today divides.

export const intervals = ['hour', 'day', 'week', 'month'] as const;
export type Interval = (typeof intervals)[number];

export const QUARTER_MS = 900_000;
export const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const QUARTERS_OF_DAY = DAY_MS / QUARTER_MS;
// No period is longer.
const LONGEST_MS = 32 * DAY_MS;
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
  const clock = clockOf(timezone, startMs - LONGEST_MS, endMs + LONGEST_MS);
  const first = Math.max(0, clock.dayAt(startMs) - 1);
  const starts: { day: number; atMs: number }[] = [];
  for (let day = first; starts.length === 0 || starts.at(-1)!.atMs < endMs; day += 1)
    starts.push({ day, atMs: clock.startOfDay(day) });

  const quarters: number[] = [];
  const days: number[] = [];
  let next = 0;
  for (const cutMs of [startMs, ...beginnings(startMs, endMs), endMs]) {
    const quarter = quarterOf(cutMs);
    if (quarter === quarters.at(-1) && startMs < endMs) continue;
    // A day belongs to the period in which it begins.
    while (starts[next]!.atMs < cutMs) next += 1;
    quarters.push(quarter);
    days.push(Math.min(starts[next]!.day, LAST_DAY));
  }
  const aroundMs = interval === 'hour' ? 2 * HOUR_MS : LONGEST_MS;
  const [wholeMs = startMs] = [...beginnings(startMs - aroundMs, startMs + 1)].slice(-1);
  const [wholeEndMs = endMs] = beginnings(endMs - 1, endMs + aroundMs);
  return { timezone, quarters, days, whole: [quarterOf(wholeMs), quarterOf(wholeEndMs)] };

  /** Where periods begin between two instants. */
  function* beginnings(fromMs: number, toMs: number): Generator<number> {
    if (interval === 'hour') return yield* clock.hoursBetween(fromMs, toMs);
    for (let day = clock.dayAt(fromMs) - 1; ; day += 1) {
      const atMs = clock.startOfDay(day);
      if (atMs >= toMs) return;
      if (atMs > fromMs && begins(day, interval)) yield atMs;
    }
  }
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
  return momentTexts(
    wholeStarts(periods).map((quarter) => quarter * QUARTER_MS),
    periods.timezone,
  );
}

/** The numbers of the periods that are cut: the first one, the last one, both or none. */
export function cutPeriods(periods: Periods): number[] {
  const { quarters, whole = quarters } = periods;
  const last = countPeriods(periods) - 1;
  return [...(whole[0]! < quarters[0]! ? [0] : []), ...(whole.at(-1)! > quarters.at(-1)! ? [last] : [])];
}

/** Moments, in Unix ms and in their order, as RFC 3339 with the offset of the zone. */
export function momentTexts(moments: readonly number[], timezone: string): string[] {
  const clock = clockOf(timezone, moments[0] ?? 0, moments.at(-1) ?? 0);
  return moments.map((ms) => clock.text(ms));
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
  const day = dayNumber(date) + daysLater;
  return clockOf(timezone, day * DAY_MS, day * DAY_MS).startOfDay(day);
}

/** The date (YYYY-MM-DD) that clocks of a zone show at an instant in Unix ms. */
export function dateAt(ms: number, timezone: string): string {
  return dateOf(clockOf(timezone, ms, ms).dayAt(ms));
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

function begins(day: number, interval: Interval | undefined): boolean {
  // 1 January 1970 was a Thursday.
  if (interval === 'week') return (day + 3) % 7 === 0;
  if (interval === 'month') return new Date(day * DAY_MS).getUTCDate() === 1;
  return interval === 'day';
}

/**
 * The clocks of a zone around a span of time. A zone has few changes of its offset, so they are read once: asked for each of
 * 3,660 days, the time zone data would cost 50 ms.
 */
function clockOf(timezone: string, startMs: number, endMs: number) {
  const spans = spansOf(timezone, startMs - 3 * DAY_MS, endMs + 3 * DAY_MS);
  const spanAt = (ms: number) => spans.findLast(({ fromMs }) => fromMs <= ms)!;
  // A month of hours has few days and times of day, and each text takes a date some microseconds.
  const dayText = remembered(dateOf);
  const timeText = remembered((ofDayMs) => new Date(ofDayMs).toISOString().slice(11, 19));

  /** The first instant at which clocks show midnight of a day, or, where they skip it, what follows. */
  function startOfDay(day: number): number {
    const localMs = day * DAY_MS;
    const { fromMs, offsetMs } = spans.find((span) => localMs - span.offsetMs < span.toMs)!;
    return Math.max(fromMs, localMs - offsetMs);
  }

  /** The full hours of the clocks, and where they are changed. */
  function* hoursBetween(fromMs: number, toMs: number): Generator<number> {
    for (let atMs = fromMs; ;) {
      const { offsetMs, toMs: changeMs } = spanAt(atMs);
      atMs = Math.min(changeMs, (Math.floor((atMs + offsetMs) / HOUR_MS) + 1) * HOUR_MS - offsetMs);
      if (atMs >= toMs) return;
      yield atMs;
    }
  }

  return {
    startOfDay,
    hoursBetween,
    dayAt: (ms: number) => Math.floor((ms + spanAt(ms).offsetMs) / DAY_MS),
    text(ms: number): string {
      const { offsetMs } = spanAt(ms);
      const day = Math.floor((ms + offsetMs) / DAY_MS);
      const offset = timeText(Math.abs(offsetMs)).slice(0, 'HH:MM'.length);
      return `${dayText(day)}T${timeText(ms + offsetMs - day * DAY_MS)}${offsetMs < 0 ? '-' : '+'}${offset}`;
    },
  };
}

function remembered(textOf: (value: number) => string): (value: number) => string {
  const texts = new Map<number, string>();
  return (value) => {
    let text = texts.get(value);
    if (text === undefined) texts.set(value, (text = textOf(value)));
    return text;
  };
}

function spansOf(timezone: string, startMs: number, endMs: number) {
  const spans: { fromMs: number; toMs: number; offsetMs: number }[] = [];
  let at: Temporal.ZonedDateTime | null = Temporal.Instant.fromEpochMilliseconds(startMs).toZonedDateTimeISO(timezone);
  while (at !== null && at.epochMilliseconds <= endMs) {
    const next: Temporal.ZonedDateTime | null = at.getTimeZoneTransition('next');
    const toMs = next?.epochMilliseconds ?? Infinity;
    spans.push({ fromMs: at.epochMilliseconds, toMs, offsetMs: at.offsetNanoseconds / 1_000_000 });
    at = next;
  }
  // Clocks showed something before the first instant, too.
  spans[0]!.fromMs = -Infinity;
  spans.at(-1)!.toMs = Infinity;
  return spans;
}
