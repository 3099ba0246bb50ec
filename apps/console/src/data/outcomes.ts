import { useMemo } from 'preact/hooks';
import { chartOf, type Chart } from '../parts/chart.tsx';
import { call, type Input, type Output } from './call.ts';
import { useRead } from './hooks.ts';
import { DAY_MS, type PeriodLabels } from './periods.ts';

type Counts = Output<'get /api/v1/verifications'>;
export type Count = Counts['data'][number];
type Status = NonNullable<Count['status']>;
/** Whose calls: of a key, of the keys of a meter, or all of the workspace. */
export type OutcomesOf = Pick<Input<'get /api/v1/verifications'>, 'apiKeyId' | 'externalMeterId'>;
type Filters = OutcomesOf & { workspaceId: string; groupBy: string };

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
// Each status keeps its colour, whichever others there are.
const colours: Record<Status, number> = {
  VALID: 2,
  RATE_LIMITED: 1,
  USAGE_LIMITED: 4,
  INVALID_SCOPES: 3,
  DISABLED: 6,
  EXPIRED: 7,
  INVALID: 5,
  DELETED: 0,
};
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const dayName = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

/** Counts decisions since a while ago; with `everyMs`, again and again. */
export function useOutcomes(filters: Filters, span: Span, everyMs?: number) {
  const { workspaceId, apiKeyId, externalMeterId } = filters;
  const read = useRead(
    async (signal) => {
      const { periods, ...asked } = spanUntil(Date.now(), span);
      const counts = await call('get /api/v1/verifications', { ...filters, ...asked }, signal);
      return { counts, periods };
    },
    [workspaceId, apiKeyId, externalMeterId, span],
    everyMs,
  );
  const chart = useMemo(() => read.value && statusChart(read.value.counts.data, read.value.periods), [read.value]);
  return { counts: read.value?.counts, chart, problem: read.problem };
}

function statusChart(rows: readonly Count[], periods: PeriodLabels): Chart {
  const { labels, lines } = chartOf(rows, periods, {
    periodOf: ({ start }) => String(Date.parse(start)),
    nameOf: ({ status = '' }) => status,
    amountOf: ({ count }) => count,
  });
  const coloured = lines.map((line) => ({ ...line, colour: colours[line.name as Status] }));
  // What passed stands at the foot.
  return { labels, lines: coloured.toSorted((a, b) => Number(b.name === 'VALID') - Number(a.name === 'VALID')) };
}

function spanUntil(nowMs: number, span: Span) {
  if (span === 'month') {
    const now = new Date(nowMs);
    const startOf = (daysAgo: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo).getTime();
    const starts = Array.from({ length: DAYS }, (_, i) => startOf(DAYS - 1 - i));
    return {
      interval: 'day' as const,
      from: new Date(starts[0]!).toISOString(),
      to: new Date(startOf(-1)).toISOString(),
      timezone: new Intl.DateTimeFormat().resolvedOptions().timeZone,
      periods: labelled(starts, dayName),
    };
  }
  const [stepMs, lengthMs] = span === 'hour' ? [MINUTE_MS, HOUR_MS] : [HOUR_MS, DAY_MS];
  const endMs = (Math.floor(nowMs / stepMs) + 1) * stepMs;
  const starts = Array.from({ length: lengthMs / stepMs }, (_, i) => endMs - lengthMs + i * stepMs);
  return {
    interval: span === 'hour' ? ('minute' as const) : ('hour' as const),
    from: new Date(endMs - lengthMs).toISOString(),
    to: new Date(endMs).toISOString(),
    periods: labelled(starts, clock),
  };
}

function labelled(starts: readonly number[], format: Intl.DateTimeFormat): PeriodLabels {
  return new Map(starts.map((ms) => [String(ms), format.format(ms)]));
}
