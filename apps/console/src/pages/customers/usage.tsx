import { useMemo } from 'preact/hooks';
import { addressOf, type Output } from '../../data/call.ts';
import { useAnswer } from '../../data/hooks.ts';
import { DAYS, lastDays, newestFirst, periodOf, periodsFrom } from '../../data/time.ts';
import { chartOf, StackedBars } from '../../parts/chart.tsx';
import { SaveButton } from '../../parts/form.tsx';
import { Section } from '../../parts/page.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Empty, Loaded, UNNAMED } from '../../parts/text.tsx';

type Row = Pick<
  Output<'get /api/v1/usage/{bid}'>['data'][number],
  'day' | 'billingUsageName' | 'totalBillingUsage' | 'events'
>;

const columns: readonly Column<Row>[] = [
  { title: 'Day', note: 'UTC', text: dayIn, width: '9rem' },
  { title: 'Usage', text: nameOf, isMain: true },
  { title: 'Credits', amount: 'totalBillingUsage' },
  { title: 'Events', amount: 'events', isExtra: true },
];

/** What a record used in the last 30 days, by day and name, as chart and table; in the portal what its customer did. */
export function Usage({ bid, empty }: { bid?: string; empty: string }) {
  const days = useMemo(() => lastDays(), []);
  const question = bid
    ? (['get /api/v1/usage/{bid}', { bid, ...days }] as const)
    : (['get /api/v1/portal/usage', days] as const);
  const file = { path: `${addressOf(question[0], question[1])}&format=csv`, file: `usage-${bid}.csv` };
  return (
    <Section title={`Usage, last ${DAYS} days`} action={bid && <SaveButton {...file} text="Download CSV" />}>
      <Loaded of={useAnswer(question[0], question[1])}>
        {({ data }) => {
          if (data.length === 0) return <Empty>{empty}</Empty>;
          const rows = data.map((row: Row) => [dayIn(row), nameOf(row), Number(row.totalBillingUsage)] as const);
          return (
            <>
              <StackedBars {...chartOf(rows, periodsFrom(days.from, days.to))} />
              <Table
                label="Usage by day"
                columns={columns}
                items={newestFirst<Row>(data, dayIn)}
                keyOf={(row) => `${dayIn(row)} ${row.billingUsageName}`}
              />
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

function dayIn({ day = '' }: Row): string {
  return periodOf(day);
}

function nameOf({ billingUsageName }: Row): string {
  return billingUsageName || UNNAMED;
}
