import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { DAY_MS, dayOf, daysFrom, newestFirst } from '../../data/periods.ts';
import { useRead } from '../../data/hooks.ts';
import { chartOf, StackedBars } from '../../parts/chart.tsx';
import { SaveButton } from '../../parts/save.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Amount, Empty, ProblemNote, UNNAMED } from '../../parts/text.tsx';

type Row = Pick<
  Output<'get /api/v1/usage/{bid}'>['data'][number],
  'day' | 'billingUsageName' | 'totalBillingUsage' | 'events'
>;
type Days = { from: string; to: string };

const DAYS = 30;

const columns: readonly Column<Row>[] = [
  { title: 'Day', note: 'UTC', cell: ({ day = '' }) => day.slice(0, 10), width: '9rem' },
  {
    title: 'Usage',
    cell: (row) => <span title={nameOf(row)}>{nameOf(row)}</span>,
    isMain: true,
  },
  { title: 'Credits', cell: ({ totalBillingUsage }) => <Amount of={totalBillingUsage} />, isNumber: true },
  { title: 'Events', cell: ({ events }) => <Amount of={events} />, isNumber: true, isExtra: true },
];

/** What the record used in the last 30 days, by day and name. */
export function Usage({ bid }: { bid: string }) {
  return (
    <UsageByDay
      on={bid}
      read={async (days, signal) => (await call('get /api/v1/usage/{bid}', { bid, ...days }, signal)).data}
      action={({ from, to }) => (
        <SaveButton
          path={`/api/v1/usage/${encodeURIComponent(bid)}?from=${from}&to=${to}&format=csv`}
          file={`usage-${bid}.csv`}
        >
          Download CSV
        </SaveButton>
      )}
      empty="Nothing was used. Verify a key of this meter with a cost, and it shows here within seconds."
    />
  );
}

type UsageProps = {
  /** What the usage is of. */
  on: string;
  read(days: Days, signal: AbortSignal): Promise<Row[]>;
  action?(days: Days): ComponentChildren;
  empty: string;
};

/** Usage of the last 30 days as chart and table. */
export function UsageByDay({ on, read, action, empty }: UsageProps) {
  const [from, to] = useMemo(() => [dayOf(Date.now() - (DAYS - 1) * DAY_MS), dayOf(Date.now())], []);
  const { value, problem } = useRead((signal) => read({ from, to }, signal), [on]);
  const chart = useMemo(
    () =>
      value &&
      chartOf(value, daysFrom(from, to), {
        periodOf: ({ day = '' }) => day.slice(0, 10),
        nameOf,
        amountOf: ({ totalBillingUsage }) => Number(totalBillingUsage),
      }),
    [value],
  );
  return (
    <section>
      <header class="page">
        <h2>Usage, last {DAYS} days</h2>
        {action?.({ from, to })}
      </header>
      <ProblemNote problem={problem} />
      {!problem && !value && <p aria-busy="true">Loading…</p>}
      {value?.length === 0 && <Empty>{empty}</Empty>}
      {chart && value && value.length > 0 && (
        <>
          <StackedBars {...chart} />
          <Table
            label="Usage by day"
            columns={columns}
            items={newestFirst(value, ({ day = '' }) => day)}
            keyOf={(row) => `${row.day} ${row.billingUsageName}`}
            empty=""
          />
        </>
      )}
    </section>
  );
}

function nameOf({ billingUsageName }: Row): string {
  return billingUsageName || UNNAMED;
}
