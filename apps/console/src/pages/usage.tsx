import { useState } from 'preact/hooks';
import { addressOf, type Input, type Output } from '../data/call.ts';
import { usePages, useWorkspace } from '../data/hooks.ts';
import { lastDays, newestFirst, periodOf, periodsFrom, type UsageInterval } from '../data/time.ts';
import { chartOf, StackedBars } from '../parts/chart.tsx';
import { Form, SaveButton } from '../parts/form.tsx';
import { Page } from '../parts/page.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';
import { Amount, UNNAMED } from '../parts/text.tsx';

type Row = Output<'get /api/v1/usage'>['data'][number];
type Asked = Omit<Input<'get /api/v1/usage'>, 'limit'> &
  Record<'from' | 'to' | 'timezone' | 'groupBy', string> & { interval: UsageInterval };

// The chart shows what was read; a longer answer comes page by page.
const ROWS = 5_000;
const intervals = (['hour', 'day', 'week', 'month'] as const).map((one) => [one, one] as const);
const groups = [
  ['billing', 'Meter'],
  ['usageName', 'Usage'],
  ['key', 'Key'],
  ['route', 'Route'],
  ['customer', 'Customer'],
] as const;
type Group = (typeof groups)[number][0];

/** What was used in the workspace, summed as one asks for it. */
export function UsagePage() {
  const { id: workspaceId, workspace, pathOf } = useWorkspace();
  const { timezone } = workspace;
  const [asked, setAsked] = useState<Asked>(() => {
    return { workspaceId, ...lastDays(timezone), interval: 'day', timezone, groupBy: 'billing,usageName' };
  });
  const pages = usePages('get /api/v1/usage', { ...asked, limit: ROWS });
  const { items, isWhole } = pages;
  const shown = pages.readOn as Asked;
  const rows = items.map((row) => {
    return [periodOf(row.start, shown.interval), nameOf(row), Number(row.totalBillingUsage)] as const;
  });
  const file = (format: 'csv' | 'parquet') => ({
    path: `${addressOf('get /api/v1/usage', asked)}&format=${format}`,
    file: `usage.${format}`,
  });
  const actions = (
    <>
      <SaveButton {...file('csv')} text="Download CSV" />
      <SaveButton {...file('parquet')} text="Download Parquet" />
    </>
  );
  return (
    <Page title="Usage" action={actions}>
      <Form
        submit="Show"
        look="row"
        fields={[
          { name: 'from', label: 'From the day', as: 'date', required: true, value: asked.from },
          { name: 'to', label: 'To the day', as: 'date', required: true, value: asked.to },
          { name: 'interval', label: 'By', options: intervals, value: asked.interval },
          { name: 'timezone', label: 'Time zone', required: true, value: asked.timezone },
          { name: 'groups', label: 'Summed up by', as: 'ticks', options: groups, value: asked.groupBy.split(',') },
          { name: 'externalMeterId', label: 'Only the meter', isRare: true },
          { name: 'usageName', label: 'Only the usage', isRare: true },
          { name: 'apiKeyId', label: 'Only the key (id)', isRare: true },
          { name: 'route', label: 'Only the route', isRare: true },
          { name: 'customerId', label: 'Only the customer', isRare: true },
        ]}
        // The api groups by two of them where none is asked for.
        onSubmit={async ({ groups, ...given }) =>
          setAsked({ workspaceId, ...given, groupBy: groups.join(',') || 'usageName' })
        }
      />
      {items.length > 0 && <StackedBars {...chartOf(rows, periodsFrom(shown.from, shown.to, shown.interval))} />}
      {items.length > 0 && !isWhole && (
        <p class="muted">
          The chart shows the first <Amount of={items.length} /> rows: ask for less, or scroll the table to its end. A
          download has all of them.
        </p>
      )}
      <PagedTable
        label="Usage"
        columns={columnsOf(shown, pathOf)}
        // A long answer comes page by page, from its first day on.
        pages={isWhole && items.length <= ROWS ? { ...pages, items: newestFirst(items, ({ start }) => start) } : pages}
        keyOf={(row) => `${row.start} ${nameOf(row)}`}
        empty="Nothing was used in this time. Verify a key with a cost, and it shows here within seconds."
      />
    </Page>
  );
}

function columnsOf({ groupBy, interval, timezone }: Asked, pathOf: (page: string) => string): Column<Row>[] {
  const ofGroup: Record<Group, { text(row: Row): string | undefined; link?(row: Row): string; none?: string }> = {
    billing: { text: meterOf, link: ({ billingId }) => pathOf(`customers/${billingId}`), none: 'none' },
    usageName: { text: ({ usageName }) => usageName },
    key: { text: ({ apiKeyId }) => apiKeyId, link: ({ apiKeyId }) => pathOf(`keys/${apiKeyId}`), none: 'correction' },
    route: { text: ({ route, other }) => (other ? undefined : route), none: 'others' },
    customer: { text: ({ customerId }) => customerId },
  };
  const [main, ...extra] = groups.filter(([group]) => groupBy.split(',').includes(group));
  const below = (row: Row) => namesOf(row, extra).join(', ');
  return [
    {
      title: interval === 'day' ? 'Day' : 'From',
      note: timezone,
      width: '13rem',
      cell: ({ start, partial }) => (
        <time dateTime={start} title={start}>
          {start.slice(0, 10)}
          {interval === 'hour' && ` ${start.slice(11, 16)}`}
          {partial && <span class="muted"> in part</span>}
        </time>
      ),
    },
    ...(main ? [{ title: main[1], ...ofGroup[main[0]], isMain: true as const, below }] : []),
    ...extra.map(([group, title]) => ({ title, ...ofGroup[group], isExtra: true as const })),
    { title: 'Credits', amount: 'totalBillingUsage' },
    { title: 'Events', width: '8rem', amount: 'events', isExtra: true },
  ];
}

function meterOf({ billingId, externalMeterId = billingId }: Row) {
  return billingId && externalMeterId;
}

function nameOf(row: Row): string {
  return namesOf(row, groups).join(', ') || UNNAMED;
}

// What names a row, of these groups.
function namesOf(row: Row, of: readonly (readonly [group: Group, title: string])[]): string[] {
  const { usageName, apiKeyId: key, route, other, customerId: customer } = row;
  const names = { billing: meterOf(row), usageName, key, route: other ? 'other routes' : route, customer };
  return of.flatMap(([group]) => names[group] || []);
}
