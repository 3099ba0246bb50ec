import { chartOf, type Chart } from '../parts/chart.tsx';
import { call, type Input, type Output } from './call.ts';
import { useRead, type Read } from './hooks.ts';
import { localDay, localTime, type PeriodLabels } from './periods.ts';
import { spanUntil, type Span } from './spans.ts';

type Counts = Output<'get /api/v1/verifications'>;
export type Count = Counts['data'][number];
type Status = NonNullable<Count['status']>;
/** Whose calls: of a key, of the keys of a meter, or all of the workspace. */
export type OutcomesOf = Pick<Input<'get /api/v1/verifications'>, 'apiKeyId' | 'externalMeterId'>;
type Filters = OutcomesOf & { workspaceId: string; groupBy: string };

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

/** Counts decisions since a while ago; with `everyMs`, again and again. */
export function useOutcomes(filters: Filters, span: Span, everyMs?: number): Read<{ counts: Counts; chart: Chart }> {
  return useRead(
    async (signal) => {
      const { asked, starts } = spanUntil(Date.now(), span);
      const counts = await call('get /api/v1/verifications', { ...filters, ...asked }, signal);
      return { counts, chart: statusChart(counts.data, labelled(starts, span)) };
    },
    JSON.stringify([filters, span]),
    everyMs,
  );
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

function labelled(starts: readonly number[], span: Span): PeriodLabels {
  const format = span === 'month' ? localDay : localTime;
  return new Map(starts.map((ms) => [String(ms), format(new Date(ms))]));
}
