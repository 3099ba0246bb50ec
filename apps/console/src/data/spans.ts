import { DAY_MS } from './periods.ts';

/** How far a chart of decisions looks back. */
export const spans = [
  ['hour', 'Last hour'],
  ['day', 'Last 24 hours'],
  ['month', 'Last 30 days'],
] as const;
export type Span = (typeof spans)[number][0];

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAYS = 30;

/** What the api is asked about a span, and when each of its periods begins. */
export function spanUntil(nowMs: number, span: Span) {
  if (span === 'month') {
    const now = new Date(nowMs);
    const startOf = (daysAgo: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo).getTime();
    const starts = Array.from({ length: DAYS }, (_, i) => startOf(DAYS - 1 - i));
    const timezone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
    return { asked: { interval: 'day' as const, ...between(starts[0]!, startOf(-1)), timezone }, starts };
  }
  const [stepMs, lengthMs] = span === 'hour' ? [MINUTE_MS, HOUR_MS] : [HOUR_MS, DAY_MS];
  const endMs = (Math.floor(nowMs / stepMs) + 1) * stepMs;
  const starts = Array.from({ length: lengthMs / stepMs }, (_, i) => endMs - lengthMs + i * stepMs);
  const interval = span === 'hour' ? ('minute' as const) : ('hour' as const);
  return { asked: { interval, ...between(endMs - lengthMs, endMs) }, starts };
}

function between(fromMs: number, toMs: number) {
  return { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
}
