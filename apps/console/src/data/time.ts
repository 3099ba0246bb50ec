export type UsageInterval = 'hour' | 'day' | 'week' | 'month';
type Interval = UsageInterval | 'minute';
/** The periods of charts: what names a row's period, and its label. */
export type PeriodLabels = ReadonlyMap<string, string>;

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** How many days charts show, unless somebody asks for others. */
export const DAYS = 30;
// Not by Intl: its first format takes a slow machine a tenth of a second, and the page is in English whatever the viewer's language.
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
// How much of a text such as 2026-11-26T14:05 names the period that it is in.
const LENGTHS: Record<Interval, number> = { minute: 16, hour: 13, day: 10, week: 10, month: 7 };

/** The viewer's time zone, by its IANA name. */
export function viewerZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** A moment as a field for date and time holds it, in the viewer's zone: `2026-11-26T14:05`. */
export function localText(ms: number): string {
  return textOf(ms - new Date(ms).getTimezoneOffset() * MINUTE_MS);
}

/** A moment in the viewer's zone, to the second: `26 Nov 2026, 14:05:09`; of this year without it. */
export function localMoment(ms: number): string {
  const text = localText(ms);
  const year = text.slice(0, 4);
  const day = year === localText(Date.now()).slice(0, 4) ? dayLabel(text) : `${dayLabel(text)} ${year}`;
  return `${day}, ${text.slice(11)}:${String(new Date(ms).getSeconds()).padStart(2, '0')}`;
}

const STEPS = { s: 1, min: 60, h: 3_600, d: 86_400 };

/** How far a moment is from now, in its largest unit: `3 min ago`, `in 2 d`. */
export function fromNow(ms: number): string {
  const seconds = Math.round((Date.now() - ms) / 1_000);
  const [unit, step] = Object.entries(STEPS).findLast(([, one]) => Math.abs(seconds) >= one) ?? ['s', 1];
  const amount = `${Math.floor(Math.abs(seconds) / step)} ${unit}`;
  return seconds < 0 ? `in ${amount}` : `${amount} ago`;
}

/** The end of a day so many days from now, in the viewer's zone: its last second. */
export function endOfDay(days: number): number {
  return new Date(new Date().setDate(new Date().getDate() + days)).setHours(23, 59, 59, 0);
}

/** The first and the last of the days that a chart shows, in a zone, in which another day may have begun than in UTC. */
export function lastDays(timeZone?: string, days = DAYS, nowMs = Date.now()): { from: string; to: string } {
  const to = dayIn(timeZone, nowMs);
  // By the calendar: a day of the zone may have 23 hours or 25.
  return { from: dayOf(Date.parse(to) - (days - 1) * DAY_MS), to };
}

// The address may name a zone that there is not: the api says so.
function dayIn(timeZone: string | undefined, ms: number): string {
  if (timeZone === undefined) return dayOf(ms);
  try {
    return new Intl.DateTimeFormat('sv-SE', { timeZone }).format(ms);
  } catch {
    return dayOf(ms);
  }
}

/** The first day of the window of a limit, such as a week or 10 days, that a day is in; of one that slides nothing. */
export function firstDayOf(per: string, day: string): string | undefined {
  const [, count = '1', unit] = /^(?:(\d+) )?(day|week|month|year)s?$/.exec(per) ?? [];
  if (unit === 'week') return periodOf(day, unit);
  // Several days are counted from 1970 on.
  const days = Date.parse(day) / DAY_MS;
  if (unit === 'day') return dayOf((days - (days % Number(count))) * DAY_MS);
  return unit && `${day.slice(0, unit === 'month' ? 7 : 4)}-01-01`.slice(0, LENGTHS.day);
}

/** Rows with those of the newest period first; within one they keep their order. */
export function newestFirst<Row>(rows: readonly Row[], startOf: (row: Row) => string): Row[] {
  return rows.toSorted((a, b) => (startOf(a) < startOf(b) ? 1 : startOf(a) > startOf(b) ? -1 : 0));
}

/** The rows of two answers, the newest first; of a newer one that is full those before only where none is missing between them. */
export function joined<Row extends { id: string; time: string }>(
  newer: readonly Row[],
  before: readonly Row[],
  full: number,
) {
  const joins = newer.length < full || newer.some(({ id }) => before.some((one) => one.id === id));
  const all = new Map([...newer, ...(joins ? before : [])].map((one) => [one.id, one]));
  return newestFirst([...all.values()], ({ time }) => time);
}

/** What names the period of a row that begins at `start`, a text of the api; of a week its Monday. */
export function periodOf(start: string, interval: Interval = 'day'): string {
  if (interval !== 'week') return start.slice(0, LENGTHS[interval]);
  const ms = Date.parse(start.slice(0, LENGTHS.day));
  return dayOf(ms - ((new Date(ms).getUTCDay() + 6) % 7) * DAY_MS);
}

/** Every period of days that are both included, whatever their zone: labels follow the calendar alone. */
export function periodsFrom(from: string, to: string, interval: UsageInterval = 'day'): PeriodLabels {
  const stepMs = interval === 'hour' ? HOUR_MS : DAY_MS;
  const labels = new Map<string, string>();
  for (let ms = Date.parse(from); ms < Date.parse(to) + DAY_MS; ms += stepMs) {
    const period = periodOf(textOf(ms), interval);
    const more = interval === 'month' ? ` ${period.slice(0, 4)}` : interval === 'hour' ? ` ${period.slice(11)}:00` : '';
    labels.set(period, dayLabel(period) + more);
  }
  return labels;
}

const stepsOf = {
  hour: { text: 'Last hour', interval: 'minute', count: 60, stepMs: MINUTE_MS },
  day: { text: 'Last 24 hours', interval: 'hour', count: 24, stepMs: HOUR_MS },
  month: { text: `Last ${DAYS} days`, interval: 'day', count: DAYS, stepMs: DAY_MS },
} as const;
/** How far a chart of decisions looks back. */
export type Span = keyof typeof stepsOf;
export const spans = Object.entries(stepsOf).map(([span, { text }]) => [span as Span, text] as const);

/** What the api is asked about a span that ends now, and the label of each of its periods. */
export function spanUntilNow(span: Span) {
  const { interval, count, stepMs } = stepsOf[span];
  // Days are counted from noon to noon: one of them may have 23 hours.
  const now = interval === 'day' ? new Date().setHours(12) : Date.now();
  const labels = new Map<string, string>();
  for (let ago = count - 1; ago >= 0; ago--) {
    const period = periodOf(localText(now - ago * stepMs), interval);
    labels.set(period, interval === 'day' ? dayLabel(period) : wholeText(period).slice(11));
  }
  const [first = ''] = labels.keys();
  return { asked: { interval, from: new Date(wholeText(first)).toISOString(), timezone: viewerZone() }, labels };
}

// What a period's name leaves out: it is the first minute.
function wholeText(period: string): string {
  return period + '0000-01-01T00:00'.slice(period.length);
}

// `26 Nov`; of a month `Nov`.
function dayLabel(text: string): string {
  return `${Number(text.slice(8, 10)) || ''} ${MONTHS[Number(text.slice(5, 7)) - 1]}`.trim();
}

const textOf = (ms: number) => new Date(ms).toISOString().slice(0, LENGTHS.minute);
const dayOf = (ms: number) => textOf(ms).slice(0, LENGTHS.day);
