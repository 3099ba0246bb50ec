/** The periods of charts: what names a row's period, and its label. */
export type PeriodLabels = ReadonlyMap<string, string>;
export type UsageInterval = 'hour' | 'day' | 'week' | 'month';

export const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const HOURS = 24;
/** How many days charts show, unless somebody asks for others. */
export const DAYS = 30;
// Not by Intl: its first format takes a slow machine a tenth of a second, and the page is in English whatever the viewer's language.
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// A day as people read it: `26 Nov`. Its months are counted from 0.
function dayLabel(month: number, day: number): string {
  return `${day} ${MONTHS[month]}`;
}

function localDay(moment: Date): string {
  return dayLabel(moment.getMonth(), moment.getDate());
}

function localTime(moment: Date): string {
  return [moment.getHours(), moment.getMinutes()].map((one) => String(one).padStart(2, '0')).join(':');
}

/** A moment in the viewer's zone: `26 Nov 2026, 14:05`. */
export function localMoment(moment: Date): string {
  return `${localDay(moment)} ${moment.getFullYear()}, ${localTime(moment)}`;
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The first and the last of the days that a chart shows, in a zone, in which another day may have begun than in UTC. */
export function lastDays(timeZone?: string): { from: string; to: string } {
  const dayIn = timeZone === undefined ? dayOf : new Intl.DateTimeFormat('sv-SE', { timeZone }).format;
  return { from: dayIn(Date.now() - (DAYS - 1) * DAY_MS), to: dayIn(Date.now()) };
}

/** Rows with those of the newest period first; within one they keep their order. */
export function newestFirst<Row>(rows: readonly Row[], startOf: (row: Row) => string): Row[] {
  return rows.toSorted((a, b) => (startOf(a) < startOf(b) ? 1 : startOf(a) > startOf(b) ? -1 : 0));
}

/** Every period of days that are both included, whatever their zone: labels follow the calendar alone. */
export function periodsFrom(from: string, to: string, interval: UsageInterval = 'day'): PeriodLabels {
  const labels = new Map<string, string>();
  for (let ms = Date.parse(from); ms <= Date.parse(to); ms += DAY_MS) {
    const day = dayOf(ms);
    const [year, month] = [Number(day.slice(0, 4)), Number(day.slice(5, 7)) - 1];
    const label = interval === 'month' ? `${MONTHS[month]} ${year}` : dayLabel(month, Number(day.slice(8)));
    if (interval === 'hour')
      for (let hour = 0; hour < HOURS; hour++) {
        const text = String(hour).padStart(2, '0');
        labels.set(`${day}T${text}`, `${label} ${text}:00`);
      }
    else if (!labels.has(periodOf(day, interval))) labels.set(periodOf(day, interval), label);
  }
  return labels;
}

/** What names the period of a row that begins at `start`, a text of the api. */
export function periodOf(start: string, interval: UsageInterval = 'day'): string {
  const day = start.slice(0, 'YYYY-MM-DD'.length);
  if (interval === 'hour') return start.slice(0, 'YYYY-MM-DDTHH'.length);
  if (interval === 'month') return day.slice(0, 'YYYY-MM'.length);
  if (interval === 'day') return day;
  // The Monday.
  const ms = Date.parse(day);
  return dayOf(ms - ((new Date(ms).getUTCDay() + 6) % 7) * DAY_MS);
}

/** How far a chart of decisions looks back. */
export const spans = [
  ['hour', 'Last hour'],
  ['day', 'Last 24 hours'],
  ['month', 'Last 30 days'],
] as const;
export type Span = (typeof spans)[number][0];

/** What the api is asked about a span that ends now, and the label of each of its periods by when it begins. */
export function spanUntilNow(span: Span) {
  if (span === 'month') {
    const now = new Date();
    const startOf = (daysAgo: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo).getTime();
    const starts = Array.from({ length: DAYS }, (_, i) => startOf(DAYS - 1 - i));
    const timezone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
    const asked = { interval: 'day' as const, ...between(starts[0]!, startOf(-1)), timezone };
    return { asked, labels: labelled(starts, localDay) };
  }
  const [stepMs, lengthMs] = span === 'hour' ? [MINUTE_MS, HOUR_MS] : [HOUR_MS, DAY_MS];
  const endMs = (Math.floor(Date.now() / stepMs) + 1) * stepMs;
  const starts = Array.from({ length: lengthMs / stepMs }, (_, i) => endMs - lengthMs + i * stepMs);
  const interval = span === 'hour' ? ('minute' as const) : ('hour' as const);
  return { asked: { interval, ...between(endMs - lengthMs, endMs) }, labels: labelled(starts, localTime) };
}

function labelled(starts: readonly number[], labelOf: (moment: Date) => string): PeriodLabels {
  return new Map(starts.map((ms) => [String(ms), labelOf(new Date(ms))]));
}

function between(fromMs: number, toMs: number) {
  return { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
}
