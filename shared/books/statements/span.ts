import { dateAt, dateOf, dayNumber, startOfDate } from '../../values/periods.ts';

/**
 * What a statement is about: an instant up to before another one (Unix ms), and the calendar days that adjustments of it are booked
 * on, from `startDay` up to before `endDay`. `days` are those of the zone, and `starts` says when each begins; the first one
 * begins with the span.
 */
export type Span = {
  timezone: string;
  startMs: number;
  endMs: number;
  startDay: string;
  endDay: string;
  days: string[];
  starts: number[];
};

/** Where a span begins that follows another one. */
export type SpanStart = { startMs: number; startDay: string };

/** Days of a zone, both included; after a closed month what is left of them, which begins where that one ended. */
export function spanOfDays(from: string, to: string, timezone: string, after?: SpanStart): Span {
  const startDay = after && after.startDay > from ? after.startDay : from;
  const endDay = dayAfter(to);
  const startMs = after?.startDay === startDay ? after.startMs : startOfDate(startDay, timezone);
  // A zone that the workspace moved to may have begun its days before.
  const endMs = Math.max(startMs, startOfDate(endDay, timezone));
  const days: string[] = [];
  for (let day = startDay; day < endDay; day = dayAfter(day)) days.push(day);
  const starts = days.map((day, i) => (i === 0 ? startMs : Math.max(startMs, startOfDate(day, timezone))));
  return { timezone, startMs, endMs, startDay, endDay, days, starts };
}

/** A calendar month (YYYY-MM) of a zone; after a closed month the rest of it. */
export function spanOfMonth(month: string, timezone: string, after?: SpanStart): Span {
  return spanOfDays(`${month}-01`, dayBefore(`${monthAfter(month)}-01`), timezone, after);
}

/** The month (YYYY-MM) in which clocks of a zone are at an instant. */
export function monthAt(ms: number, timezone: string): string {
  return dateAt(ms, timezone).slice(0, 7);
}

/** The month after one. */
export function monthAfter(month: string): string {
  return Temporal.PlainYearMonth.from(month).add({ months: 1 }).toString();
}

/** The day of a span that an instant in it lies in. */
export function dayIn({ days, starts }: Span, ms: number): string {
  return days[starts.findLastIndex((startMs) => startMs <= ms)] ?? days[0]!;
}

/** The day before one. */
export function dayBefore(day: string): string {
  return dateOf(dayNumber(day) - 1);
}

function dayAfter(day: string): string {
  return dateOf(dayNumber(day) + 1);
}
