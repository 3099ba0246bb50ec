import { invalidField } from '../../../../shared/contract/errors.ts';
import { formats } from '../../../../shared/contract/validate.ts';
import { COUNTS_KEPT_MS } from '../../../../shared/events/outcome.ts';
import { isTimezone } from '../../../../shared/values/calendar.ts';
import { dateAt, DAY_MS, periodsOf, QUARTER_MS, startOfDate } from '../../../../shared/values/periods.ts';

export const outcomeIntervals = ['minute', 'hour', 'day'] as const;
export type OutcomeInterval = (typeof outcomeIntervals)[number];

type Asked = { from?: string; to?: string; interval: OutcomeInterval; timezone: string };

const MINUTE_MS = 60_000;
// The most that one answer is about. A day may have an hour more.
const DAYS_AT_MOST: Record<OutcomeInterval, number> = { minute: 2, hour: 31, day: COUNTS_KEPT_MS / DAY_MS };
const MORE_MS = 3_600_000;

/** The periods that are asked for: when each begins, in Unix ms, and at last when the last one ends. Throws 400. */
export function cutsOf({ from, to, interval, timezone }: Asked, nowMs: number): number[] {
  if (!isTimezone(timezone))
    throw invalidField('timezone', 'must be the IANA name of a time zone, such as Europe/Berlin');
  const today = dateAt(nowMs, timezone);
  const startMs = boundOf('from', from ?? to ?? today, timezone);
  const endMs = boundOf('to', to ?? today, timezone);
  const multipleMs = interval === 'minute' ? MINUTE_MS : QUARTER_MS;
  if (startMs % multipleMs > 0 || endMs % multipleMs > 0) {
    const message = interval === 'minute' ? 'must be a whole minute' : 'must be a whole quarter hour';
    throw invalidField(startMs % multipleMs > 0 ? 'from' : 'to', message);
  }
  if (startMs >= endMs) throw invalidField('from', 'must be before to');
  const days = DAYS_AT_MOST[interval];
  if (endMs - startMs > days * DAY_MS + MORE_MS)
    throw invalidField(
      'from',
      `must be at most ${days} days before the end, by ${interval}; ask for less, or by a longer one`,
    );
  if (startMs < nowMs - COUNTS_KEPT_MS)
    throw invalidField('from', `must be at most ${COUNTS_KEPT_MS / DAY_MS} days ago: refusals are kept for so long`);
  if (interval !== 'minute')
    return periodsOf({ startMs, endMs, timezone, interval }).quarters.map((quarter) => quarter * QUARTER_MS);
  return Array.from({ length: (endMs - startMs) / MINUTE_MS + 1 }, (_, i) => startMs + i * MINUTE_MS);
}

function boundOf(name: 'from' | 'to', text: string, timezone: string): number {
  // A day is included, an instant excluded.
  if (formats.date(text)) return startOfDate(text, timezone, name === 'to' ? 1 : 0);
  const ms = INSTANT.test(text) ? Date.parse(text) : NaN;
  if (Number.isNaN(ms))
    throw invalidField(name, 'must be a day, YYYY-MM-DD, or an instant in RFC 3339, such as 2026-11-20T08:15:00Z');
  return ms;
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/;
