/** The periods of charts: what names a row's period, and its label. */
export type PeriodLabels = ReadonlyMap<string, string>;
export type UsageInterval = 'hour' | 'day' | 'week' | 'month';

export const DAY_MS = 86_400_000;
const HOURS = 24;
// Not by Intl: its first format takes a slow machine a tenth of a second, and the page is in English whatever the viewer's language.
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** A day as people read it: `26 Nov`. Its months are counted from 0. */
function dayLabel(month: number, day: number): string {
  return `${day} ${MONTHS[month]}`;
}

/** A moment's day in the viewer's zone: `26 Nov`. */
export function localDay(moment: Date): string {
  return dayLabel(moment.getMonth(), moment.getDate());
}

/** A moment's time of day in the viewer's zone: `14:05`. */
export function localTime(moment: Date): string {
  return [moment.getHours(), moment.getMinutes()].map((one) => String(one).padStart(2, '0')).join(':');
}

/** A moment in the viewer's zone: `26 Nov 2026, 14:05`. */
export function localMoment(moment: Date): string {
  return `${localDay(moment)} ${moment.getFullYear()}, ${localTime(moment)}`;
}

/** A moment's day in UTC. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** A moment's day in a zone, in which another day may have begun than in UTC. */
export function dayIn(timeZone: string, ms: number): string {
  return new Intl.DateTimeFormat('sv-SE', { timeZone }).format(ms);
}

/** Rows with those of the newest period first; within one they keep their order. */
export function newestFirst<Row>(rows: readonly Row[], startOf: (row: Row) => string): Row[] {
  return rows.toSorted((a, b) => (startOf(a) < startOf(b) ? 1 : startOf(a) > startOf(b) ? -1 : 0));
}

/** Every day from one to another. */
export function daysFrom(from: string, to: string): PeriodLabels {
  return periodsFrom(from, to, 'day');
}

/** Every period of days that are both included, whatever their zone: labels follow the calendar alone. */
export function periodsFrom(from: string, to: string, interval: UsageInterval): PeriodLabels {
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
export function periodOf(start: string, interval: UsageInterval): string {
  const day = start.slice(0, 'YYYY-MM-DD'.length);
  if (interval === 'hour') return start.slice(0, 'YYYY-MM-DDTHH'.length);
  if (interval === 'month') return day.slice(0, 'YYYY-MM'.length);
  if (interval === 'day') return day;
  // The Monday.
  const ms = Date.parse(day);
  return dayOf(ms - ((new Date(ms).getUTCDay() + 6) % 7) * DAY_MS);
}
