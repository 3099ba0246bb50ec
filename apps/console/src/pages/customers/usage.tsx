import { useMemo } from 'preact/hooks';
import { addressOf, type Output } from '../../data/call.ts';
import { DAY_MS, dayOf, daysFrom, newestFirst } from '../../data/periods.ts';
import { useAnswer } from '../../data/hooks.ts';
import { chartOf, StackedBars } from '../../parts/chart.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { Section } from '../../parts/page.tsx';
import { SaveButton } from '../../parts/save.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Empty, UNNAMED } from '../../parts/text.tsx';

type Row = Pick<
  Output<'get /api/v1/usage/{bid}'>['data'][number],
  'day' | 'billingUsageName' | 'totalBillingUsage' | 'events'
>;

const DAYS = 30;

const columns: readonly Column<Row>[] = [
  { title: 'Day', note: 'UTC', text: dayIn, width: '9rem' },
  { title: 'Usage', text: nameOf, isMain: true },
  { title: 'Credits', amount: 'totalBillingUsage' },
  { title: 'Events', amount: 'events', isExtra: true },
];

/** What a record used in the last 30 days, by day and name, as chart and table; in the portal what its customer did. */
export function Usage({ bid, empty }: { bid?: string; empty: string }) {
  const days = useMemo(() => ({ from: dayOf(Date.now() - (DAYS - 1) * DAY_MS), to: dayOf(Date.now()) }), []);
  const question = bid
    ? (['get /api/v1/usage/{bid}', { bid, ...days }] as const)
    : (['get /api/v1/portal/usage', days] as const);
  const file = { path: `${addressOf(question)}&format=csv`, file: `usage-${bid}.csv` };
  return (
    <Section title={`Usage, last ${DAYS} days`} action={bid && <SaveButton {...file} text="Download CSV" />}>
      <Loaded of={useAnswer(question[0], question[1])}>
        {({ data }) => {
          if (data.length === 0) return <Empty>{empty}</Empty>;
          return (
            <>
              <StackedBars
                {...chartOf<Row>(data, daysFrom(days.from, days.to), { periodOf: dayIn, nameOf, amountOf })}
              />
              <Table
                label="Usage by day"
                columns={columns}
                items={newestFirst<Row>(data, dayIn)}
                keyOf={(row) => `${row.day} ${row.billingUsageName}`}
                empty=""
              />
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

function dayIn({ day = '' }: Row): string {
  return day.slice(0, 10);
}

function nameOf({ billingUsageName }: Row): string {
  return billingUsageName || UNNAMED;
}

function amountOf({ totalBillingUsage }: Row): number {
  return Number(totalBillingUsage);
}
