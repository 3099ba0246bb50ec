import { Type } from 'typebox';
import { plainText } from '../../../shared/contract/schema-kinds.ts';
import { invalidField } from '../../../shared/contract/errors.ts';
import { formats } from '../../../shared/contract/validate.ts';
import { isTimezone } from '../../../shared/values/calendar.ts';
import {
  dateAt,
  DAY_MS,
  intervals,
  periodsOf,
  QUARTER_MS,
  startOfDate,
  type Interval,
  type Periods,
} from '../../../shared/values/periods.ts';

const HOUR_MS = 3_600_000;
// What the books can store.
const [FIRST_DAY, LAST_DAY] = ['1970-01-01', '2149-06-05'];
const DEFAULT_DAYS = 31;
const MOST_DAYS_BY_HOUR = 93;
const MOST_DAYS = 3_660;

/** The query parameters of every operation that divides usage into periods. */
export const rangeParameters = {
  from: Type.Optional(
    plainText(
      40,
      `first day, YYYY-MM-DD in the time zone, or the first instant, RFC 3339 on a quarter of an hour; default ${DEFAULT_DAYS - 1} days before \`to\``,
      '2026-11-01',
    ),
  ),
  to: Type.Optional(
    plainText(
      40,
      'last day, which is included, or an instant, which is not; days and instants are not mixed; default today, or now',
      '2026-11-30',
    ),
  ),
  interval: Type.Optional(
    Type.Enum([...intervals], {
      description: `length of a period, default day; weeks begin on Monday; hours of at most ${MOST_DAYS_BY_HOUR} days, others of at most ${MOST_DAYS}`,
    }),
  ),
  timezone: Type.Optional(plainText(64, 'IANA time zone of days, weeks and months, default UTC', 'Europe/Berlin')),
};

export type GivenRange = {
  from?: string | undefined;
  to?: string | undefined;
  interval?: Interval | undefined;
  timezone?: string | undefined;
};

/** The periods that parameters ask for, or a 400 that names the wrong ones. */
export function readPeriods({ from, to, interval = 'day', timezone = 'UTC' }: GivenRange, nowMs: number): Periods {
  if (!isTimezone(timezone))
    throw invalidField('timezone', 'must be a time zone of the IANA database, such as Europe/Berlin');
  const span = from?.includes('T') || to?.includes('T') ? readInstants({ from, to }, nowMs) : undefined;
  return boundedPeriods({ ...(span ?? readDays({ from, to }, timezone, nowMs)), interval, timezone });
}

/** The same for instants that are known, in Unix ms. */
export function boundedPeriods(span: {
  startMs: number;
  endMs: number;
  interval: Interval;
  timezone: string;
}): Periods {
  const { startMs, endMs, interval } = span;
  const most = interval === 'hour' ? MOST_DAYS_BY_HOUR : MOST_DAYS;
  if (endMs - startMs > most * DAY_MS + HOUR_MS) {
    const what = interval === 'hour' ? 'hours' : 'periods';
    const hint = interval === 'hour' ? ', or take interval=day' : '';
    throw invalidField('from', `must be later: ${what} of at most ${most} days are read at a time${hint}`);
  }
  return periodsOf(span);
}

function readDays({ from, to }: GivenRange, timezone: string, nowMs: number) {
  const last = to ?? dateAt(nowMs, timezone);
  checkDay('to', last);
  const first = from ?? dateAt(Date.parse(last) - (DEFAULT_DAYS - 1) * DAY_MS, 'UTC');
  checkDay('from', first);
  if (first > last) throw invalidField('from', 'must not be after to');
  return { startMs: startOfDate(first, timezone), endMs: startOfDate(last, timezone, 1) };
}

function readInstants({ from, to }: GivenRange, nowMs: number) {
  const endMs = to === undefined ? Math.ceil(nowMs / QUARTER_MS) * QUARTER_MS : readInstant('to', to);
  const startMs = from === undefined ? endMs - DEFAULT_DAYS * DAY_MS : readInstant('from', from);
  if (startMs >= endMs) throw invalidField('from', 'must be before to');
  checkStored('from', startMs);
  return { startMs, endMs };
}

function readInstant(path: string, text: string): number {
  const isInstant = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/.test(text);
  const ms = isInstant ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw invalidField(
      path,
      'must be RFC 3339 with an offset like the other one, such as 2026-11-20T06:00:00Z (a + is %2B in an address)',
    );
  if (ms % QUARTER_MS !== 0) throw invalidField(path, 'must lie on a quarter of an hour');
  checkStored(path, ms);
  return ms;
}

function checkStored(path: string, ms: number): void {
  if (ms < Date.parse(FIRST_DAY) || ms > Date.parse(LAST_DAY))
    throw invalidField(path, `must lie between ${FIRST_DAY} and ${LAST_DAY}`);
}

function checkDay(path: string, text: string): void {
  if (!formats.date(text)) throw invalidField(path, 'must be a day, YYYY-MM-DD, or an instant in RFC 3339');
  if (text <= FIRST_DAY || text > LAST_DAY) throw invalidField(path, `must lie between ${FIRST_DAY} and ${LAST_DAY}`);
}
