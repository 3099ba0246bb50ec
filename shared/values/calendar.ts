// Local time and instants: the periods of schedules, and the windows of limits that follow the calendar. Every instant is
// computed from a local date and the rules of its zone, so it does not matter from where one counts.

/** Units of a schedule, and of windows of limits. */
export const calendarUnits = ['day', 'week', 'month', 'year'] as const;
export type CalendarUnit = (typeof calendarUnits)[number];

/** From an instant, in Unix ms, up to another one that is no more in it. */
export type Span = { startMs: number; endMs: number };

/** What repeats: one `every` after the other from the local time of an anchor (Unix ms) in a zone. */
export type Recurrence = { every: CalendarUnit; timezone: string; anchorMs: number };

/** Whether text names a time zone of the IANA database that this process knows. An offset is none. */
export function isTimezone(text: string): boolean {
  if (!/^[A-Za-z][\w+/-]{0,63}$/.test(text)) return false;
  try {
    inZone(0, text);
    return true;
  } catch {
    return false;
  }
}

/** The first instant, in Unix ms, at which clocks of a zone show a local time, or, where they skip it, a later one. */
export function firstInstantOf(local: Temporal.PlainDateTime, timezone: string): number {
  const earlier = local.toZonedDateTime(timezone, { disambiguation: 'earlier' });
  if (earlier.toPlainDateTime().equals(local)) return earlier.epochMilliseconds;
  // The clocks skip it: what they show next is the first instant after the change.
  return earlier.getTimeZoneTransition('next')!.epochMilliseconds;
}

/**
 * The instant at which a period begins; number 0 begins at the anchor. It counts from the anchor: after a shorter month,
 * whose last day stands for the 29th to 31st, the day of the anchor comes again.
 */
export function periodStart({ every, timezone, anchorMs }: Recurrence, period: number): number {
  if (period === 0) return anchorMs;
  const anchor = inZone(anchorMs, timezone).toPlainDateTime();
  return firstInstantOf(anchor.add({ [`${every}s`]: period }), timezone);
}

/** The number of the period that an instant lies in; below 0 before the anchor. */
export function periodAt(recurrence: Recurrence, atMs: number): number {
  const { every, timezone, anchorMs } = recurrence;
  const local = (ms: number) => inZone(ms, timezone).toPlainDateTime();
  // Nearly right: a clock that was changed, or the end of a month, may lie between.
  let period = Math.trunc(local(anchorMs).until(local(atMs), { largestUnit: every })[`${every}s`]);
  while (periodStart(recurrence, period) > atMs) period -= 1;
  while (periodStart(recurrence, period + 1) <= atMs) period += 1;
  return period;
}

/**
 * The day, week (from Monday), month or year of a zone that an instant lies in, from the first instant of its first date; or so many
 * days, counted from 1970 on.
 */
export function windowAt(unit: CalendarUnit, timezone: string, atMs: number, count = 1): Span {
  const date = inZone(atMs, timezone).toPlainDate();
  let first = date;
  if (unit === 'day' && count > 1) first = date.subtract({ days: daysSince1970(date) % count });
  if (unit === 'week') first = date.subtract({ days: date.dayOfWeek - 1 });
  if (unit === 'month') first = date.with({ day: 1 });
  if (unit === 'year') first = date.with({ month: 1, day: 1 });
  for (;;) {
    const next = first.add({ [`${unit}s`]: count });
    const [startMs, endMs] = [startOf(first, timezone), startOf(next, timezone)];
    // Clocks that are set back over midnight show the old date again; its next one has begun.
    if (atMs < endMs) return { startMs, endMs };
    first = next;
  }
}

function daysSince1970(date: Temporal.PlainDate): number {
  return new Temporal.PlainDate(1970, 1, 1).until(date).days;
}

/** The first instant, in Unix ms, of a date in a zone. */
export function startOf(date: Temporal.PlainDate, timezone: string): number {
  return date.toZonedDateTime(timezone).epochMilliseconds;
}

/** What clocks of a zone show at an instant in Unix ms. */
export function inZone(ms: number, timezone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timezone);
}
