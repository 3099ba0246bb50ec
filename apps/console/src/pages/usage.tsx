import { useState } from 'preact/hooks';
import { queryOf, type Output } from '../data/call.ts';
import { usePages } from '../data/hooks.ts';
import { DAY_MS, dayIn, newestFirst, periodOf, periodsFrom, type UsageInterval } from '../data/periods.ts';
import { useWorkspace } from '../data/session.ts';
import { chartOf, StackedBars } from '../parts/chart.tsx';
import { Fields, Form, givenIn, type FieldData, type Given } from '../parts/form.tsx';
import { Page, usePath } from '../parts/page.tsx';
import { SaveButton } from '../parts/save.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';
import { Amount, UNNAMED } from '../parts/text.tsx';

type Row = Output<'get /api/v1/usage'>['data'][number];
type Group = (typeof groups)[number][0];
type Asked = Record<'from' | 'to' | 'timezone' | 'groupBy', string> & { interval: UsageInterval } & Given<
    typeof filters
  >;

const DAYS = 30;
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
const filters = [
  { name: 'externalMeterId', label: 'Only the meter' },
  { name: 'usageName', label: 'Only the usage' },
  { name: 'apiKeyId', label: 'Only the key (id)' },
  { name: 'route', label: 'Only the route' },
  { name: 'customerId', label: 'Only the customer' },
] as const satisfies readonly FieldData[];

/** What was used in the workspace, summed as one asks for it. */
export function UsagePage() {
  const { id: workspaceId, timezone } = useWorkspace();
  const [asked, setAsked] = useState<Asked>(() => ({
    from: dayIn(timezone, Date.now() - (DAYS - 1) * DAY_MS),
    to: dayIn(timezone, Date.now()),
    interval: 'day',
    timezone,
    groupBy: 'billing,usageName',
  }));
  const pages = usePages('get /api/v1/usage', { workspaceId, ...asked, limit: ROWS });
  const { items, isWhole } = pages;
  const shown = pages.readOn as Asked;
  const chart = chartOf(items, periodsFrom(shown.from, shown.to, shown.interval), {
    periodOf: ({ start }) => periodOf(start, shown.interval),
    nameOf,
    amountOf: ({ totalBillingUsage }) => Number(totalBillingUsage),
  });
  const pathOf = usePath();
  const file = (format: string) => `/api/v1/usage${queryOf({ workspaceId, ...asked, format })}`;
  const actions = (
    <>
      <SaveButton path={file('csv')} file="usage.csv" text="Download CSV" />
      <SaveButton path={file('parquet')} file="usage.parquet" text="Download Parquet" />
    </>
  );
  return (
    <Page title="Usage" action={actions}>
      <Question asked={asked} onAsk={setAsked} />
      {items.length > 0 && <StackedBars {...chart} />}
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

function Question({ asked, onAsk }: { asked: Asked; onAsk(asked: Asked): void }) {
  const fields = [
    { name: 'from', label: 'From the day', as: 'date', required: true, value: asked.from },
    { name: 'to', label: 'To the day', as: 'date', required: true, value: asked.to },
    { name: 'interval', label: 'By', options: intervals, value: asked.interval },
    { name: 'timezone', label: 'Time zone', required: true, value: asked.timezone },
    { name: 'groups', label: 'Summed up by', as: 'ticks', options: groups, value: asked.groupBy.split(',') },
  ] as const satisfies readonly FieldData[];
  const ask = async (_: unknown, form: FormData) => {
    const { groups, ...given } = givenIn(fields, form);
    // The api groups by two of them where none is asked for.
    onAsk({ ...given, ...givenIn(filters, form), groupBy: groups.join(',') || 'usageName' });
  };
  return (
    <Form submit="Show" onSubmit={ask}>
      <div class="finder">
        <Fields of={fields} />
        <details class="wide">
          <summary>Only some of it</summary>
          <div class="finder">
            <Fields of={filters.map((one) => ({ ...one, value: asked[one.name] }))} />
          </div>
        </details>
      </div>
    </Form>
  );
}

function isIn({ groupBy }: Asked, group: Group): boolean {
  return groupBy.split(',').includes(group);
}

function columnsOf(asked: Asked, pathOf: (page: string) => string): Column<Row>[] {
  const ofGroup: Record<Group, { text(row: Row): string | undefined; link?(row: Row): string; none?: string }> = {
    billing: { text: meterOf, link: ({ billingId }) => pathOf(`customers/${billingId}`), none: 'none' },
    usageName: { text: ({ usageName }) => usageName },
    key: { text: ({ apiKeyId }) => apiKeyId, link: ({ apiKeyId }) => pathOf(`keys/${apiKeyId}`), none: 'correction' },
    route: { text: ({ route, other }) => (other ? undefined : route), none: 'others' },
    customer: { text: ({ customerId }) => customerId },
  };
  const [main, ...extra] = groups.filter(([group]) => isIn(asked, group));
  const below = (row: Row) => restOf(row, asked);
  return [
    {
      title: asked.interval === 'day' ? 'Day' : 'From',
      note: asked.timezone,
      width: '13rem',
      cell: ({ start, partial }) => (
        <time dateTime={start} title={start}>
          {asked.interval === 'hour' ? hourOf(start) : start.slice(0, 10)}
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

function hourOf(start: string): string {
  return `${start.slice(0, 10)} ${start.slice(11, 16)}`;
}

function nameOf(row: Row): string {
  return partsOf(row).filter(Boolean).join(', ') || UNNAMED;
}

function restOf(row: Row, asked: Asked): string {
  const parts = partsOf(row).filter((_, i) => isIn(asked, groups[i]![0]));
  return parts.slice(1).filter(Boolean).join(', ');
}

// What names a row, in the order of the groups.
function partsOf({ billingId, externalMeterId, usageName, apiKeyId, route, other, customerId }: Row) {
  return [externalMeterId ?? billingId, usageName, apiKeyId, other ? 'other routes' : route, customerId];
}
