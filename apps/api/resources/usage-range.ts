import { Type } from 'typebox';
import { invalidField } from '../../../shared/contract/errors.ts';
import { plainText } from '../../../shared/contract/schema-kinds.ts';
import { formats } from '../../../shared/contract/validate.ts';
import { COUNTS_KEPT_MS } from '../../../shared/events/outcome.ts';
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

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** What the books can store. */
export const [FIRST_DAY, LAST_DAY] = ['1970-01-01', '2149-06-05'];
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
  if (from !== undefined && to !== undefined && isInstant(from) !== isInstant(to))
    throw invalidField('to', 'must be a day or an instant, like the other one');
  const span = readSpan({ from, to }, { timezone, nowMs, days: DEFAULT_DAYS, multipleMs: QUARTER_MS });
  return boundedPeriods({ ...span, interval, timezone });
}

/** The same for instants that are known, in Unix ms. */
export function boundedPeriods(span: {
  startMs: number;
  endMs: number;
  interval: Interval;
  timezone: string;
}): Periods {
  refuseLong(span, span.interval === 'hour' ? MOST_DAYS_BY_HOUR : MOST_DAYS);
  return periodsOf(span);
}

// A day may have an hour more.
function refuseLong({ startMs, endMs, interval }: { startMs: number; endMs: number; interval: string }, days: number) {
  if (endMs - startMs <= days * DAY_MS + HOUR_MS) return;
  const message = `must be at most ${days} days before the end, by ${interval}; ask for less, or by a longer one`;
  throw invalidField('from', message);
}

export const outcomeIntervals = ['minute', 'hour', 'day'] as const;
type OutcomeInterval = (typeof outcomeIntervals)[number];

// The most that one answer with counts of verifications is about.
const MOST_DAYS_OF_OUTCOMES: Record<OutcomeInterval, number> = { minute: 2, hour: 31, day: COUNTS_KEPT_MS / DAY_MS };

type AskedOutcomes = { from?: string; to?: string; interval: OutcomeInterval; timezone: string };

/** The periods that counts of verifications are asked for: when each begins, in Unix ms, and at last when the last one ends. Throws 400. */
export function cutsOf({ from, to, interval, timezone }: AskedOutcomes, nowMs: number): number[] {
  const multipleMs = interval === 'minute' ? MINUTE_MS : QUARTER_MS;
  const { startMs, endMs } = readSpan({ from, to }, { timezone, nowMs, days: 1, multipleMs });
  refuseLong({ startMs, endMs, interval }, MOST_DAYS_OF_OUTCOMES[interval]);
  if (startMs < nowMs - COUNTS_KEPT_MS)
    throw invalidField('from', `must be at most ${COUNTS_KEPT_MS / DAY_MS} days ago: refusals are kept for so long`);
  if (interval !== 'minute')
    return periodsOf({ startMs, endMs, timezone, interval }).quarters.map((quarter) => quarter * QUARTER_MS);
  return Array.from({ length: (endMs - startMs) / MINUTE_MS + 1 }, (_, i) => startMs + i * MINUTE_MS);
}

type Bounds = Pick<GivenRange, 'from' | 'to'>;
/** How bounds are read: without a first one it is so many days, and instants are multiples of so much. */
type Reading = { timezone: string; nowMs: number; days: number; multipleMs: number };

/** What lies between two bounds: days of the zone, the last one included, or instants. Without a last one it is today, or now. */
function readSpan({ from, to }: Bounds, { timezone, nowMs, days, multipleMs }: Reading) {
  if (!isTimezone(timezone))
    throw invalidField('timezone', 'must be the IANA name of a time zone, such as Europe/Berlin');
  const last = to ?? (isInstant(from) ? nextInstant(nowMs, multipleMs) : dateAt(nowMs, timezone));
  const endMs = boundOf('to', last, timezone, multipleMs);
  const daysBefore = isInstant(last) ? endMs - days * DAY_MS : startOfDate(last, timezone, 1 - days);
  const startMs = from === undefined ? daysBefore : boundOf('from', from, timezone, multipleMs);
  if (startMs >= endMs) throw invalidField('from', 'must be before to');
  const wrong = startMs < Date.parse(FIRST_DAY) ? 'from' : endMs > Date.parse(LAST_DAY) + DAY_MS ? 'to' : undefined;
  if (wrong) throw invalidField(wrong, `must lie between ${FIRST_DAY} and ${LAST_DAY}`);
  return { startMs, endMs };
}

function boundOf(name: 'from' | 'to', text: string, timezone: string, multipleMs: number): number {
  if (formats.date(text)) return startOfDate(text, timezone, name === 'to' ? 1 : 0);
  const ms = INSTANT.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw invalidField(
      name,
      'must be a day, YYYY-MM-DD, or an instant in RFC 3339, such as 2026-11-20T06:00:00Z (a + is %2B in an address)',
    );
  const whole = multipleMs === QUARTER_MS ? 'quarter hour' : 'minute';
  if (ms % multipleMs !== 0) throw invalidField(name, `must be a whole ${whole}`);
  return ms;
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

function isInstant(bound: string | undefined): boolean {
  return bound?.includes('T') === true;
}

function nextInstant(nowMs: number, multipleMs: number): string {
  return new Date(Math.ceil(nowMs / multipleMs) * multipleMs).toISOString();
}
