import type { ComponentChildren } from 'preact';
import { formatSum } from '../../../../shared/values/credits.ts';
import { addressOf, call, type Input } from '../data/call.ts';
import { useAsked, usePages, useRead, useWorkspace, type ItemOf } from '../data/hooks.ts';
import { DAYS, firstDayOf, lastDays, newestFirst, periodOf, periodsFrom, type UsageInterval } from '../data/time.ts';
import { chartOf, StackedBars } from '../parts/chart.tsx';
import { Finder, SaveButton } from '../parts/form.tsx';
import { Page, Section } from '../parts/page.tsx';
import { PagedTable, Table, type Column } from '../parts/table.tsx';
import { Amount, Empty, UNNAMED } from '../parts/text.tsx';

type Row = ItemOf<'get /api/v1/usage'>;
type Asked = Omit<Input<'get /api/v1/usage'>, 'limit'> &
  Record<'from' | 'to' | 'timezone' | 'groupBy', string> & { interval: UsageInterval };

// The chart shows what was read; a longer answer comes page by page.
const ROWS = 5_000;
const MOST_ROWS = 10_000;
type Group = {
  group: string;
  title: string;
  /** The field that asks for one of them alone. */
  name: keyof Row;
  text(row: Row): string | undefined;
  link?(row: Row): string;
  none?: string;
};
const key = { text: (row: Row) => row.apiKeyId, link: (row: Row) => `keys/${row.apiKeyId}`, none: 'correction' };
const customer = { text: meterOf, link: (row: Row) => `customers/${row.billingId}`, none: 'none' };
/** What usage is summed up by. */
export const groups: readonly Group[] = [
  { group: 'billing', title: 'Customer', name: 'externalMeterId', ...customer },
  { group: 'usageName', title: 'Usage', name: 'usageName', text: ({ usageName }) => usageName },
  { group: 'key', title: 'Key', name: 'apiKeyId', ...key },
  { group: 'route', title: 'Route', name: 'route', text: ({ route, other }) => (other ? 'other routes' : route) },
  { group: 'customer', title: 'Customer id', name: 'customerId', text: ({ customerId }) => customerId },
];
const intervals = ['hour', 'day', 'week', 'month'] as const;
const filters = groups.map(({ group, title, name }) => {
  return { name, label: `Only the ${title.toLowerCase()}${group === 'key' ? ' (id)' : ''}` };
});
/** The same, to choose from. */
export const groupOptions = groups.map(({ group, title }) => [group, title] as const);

/** What was used in the workspace, summed as one asks for it. */
export function UsagePage() {
  const { id: workspaceId, workspace } = useWorkspace();
  const [{ groups: groupBy, interval, timezone = workspace.timezone, ...wanted }] = useAsked();
  const days = lastDays(timezone);
  const asked: Asked = {
    workspaceId,
    from: wanted['from'] ?? days.from,
    to: wanted['to'] ?? days.to,
    interval: intervals.find((one) => one === interval) ?? 'day',
    timezone,
    groupBy: groupBy || 'billing,usageName',
    ...Object.fromEntries(filters.map(({ name }) => [name, wanted[name]])),
  };
  const pages = usePages('get /api/v1/usage', { ...asked, limit: ROWS });
  const { items, isWhole } = pages;
  const shown = pages.readOn as Asked;
  const grouped = asked.groupBy.split(',');
  const path = `${addressOf('get /api/v1/usage', asked)}&format=`;
  const actions = Object.entries({ csv: 'CSV', parquet: 'Parquet' }).map(([format, text]) => (
    <SaveButton key={format} path={path + format} file={`usage.${format}`} text={`Download ${text}`} />
  ));
  return (
    <Page title="Usage" action={actions}>
      <Presets timezone={timezone} />
      <Finder
        submit="Show"
        fields={[
          { name: 'from', label: 'From the day', as: 'date', required: true, value: asked.from },
          { name: 'to', label: 'To the day', as: 'date', required: true, value: asked.to },
          { name: 'interval', label: 'By', options: intervals, value: asked.interval },
          { name: 'timezone', label: 'Time zone', required: true, value: asked.timezone },
          { name: 'groups', label: 'Summed up by', as: 'ticks', options: groupOptions, value: grouped },
          ...filters,
        ]}
      />
      {items.length > 0 && isWhole && (
        <p class="big">
          <Amount of={sumOf(items)} />{' '}
          <small>
            credits, {shown.from} to {shown.to}
          </small>
        </p>
      )}
      {items.length > 0 && <UsageChart rows={items} {...shown} />}
      {items.length > 0 && !isWhole && (
        <p class="muted">
          The chart shows the first <Amount of={items.length} /> rows: ask for less, or scroll the table to its end. A
          download has all of them.
        </p>
      )}
      <PagedTable
        label="Usage"
        columns={columnsOf(shown)}
        // A long answer comes page by page, from its first day on.
        pages={isWhole && items.length <= ROWS ? { ...pages, items: newestFirst(items, ({ start }) => start) } : pages}
        empty="Nothing was used in this time. Verify a key with a cost, and it shows here within seconds."
      />
    </Page>
  );
}

function Presets({ timezone }: { timezone: string }) {
  const [, ask] = useAsked();
  const { from: yesterday, to: today } = lastDays(timezone, 2);
  const month = firstDayOf('month', today)!;
  const before = new Date(Date.parse(month) - 1).toISOString().slice(0, 10);
  const presets = [
    ['Today', today, today],
    ['Yesterday', yesterday, yesterday],
    ['7 days', lastDays(timezone, 7).from, today],
    [`${DAYS} days`, lastDays(timezone).from, today],
    ['This month', month, today],
    ['Last month', firstDayOf('month', before), before],
  ] as const;
  return (
    <div class="actions" style={{ marginBottom: '1rem' }}>
      {presets.map(([title, from, to]) => (
        <button key={title} type="button" class="outline small" onClick={() => ask({ from, to })}>
          {title}
        </button>
      ))}
    </div>
  );
}

type LastUsageProps = {
  of?: { workspaceId: string; billingId?: string };
  title?: string;
  action?: ComponentChildren;
  empty: string;
  isSum?: true;
};

/** What was used in the last 30 days, in the portal by its customer, as chart and table: by usage name and day, or its sums. */
export function LastUsage({ of, title = 'Usage', action, empty, isSum }: LastUsageProps) {
  const days = lastDays();
  const asked = of && { ...of, ...days, groupBy: 'usageName', limit: MOST_ROWS };
  const read = useRead<{ data: readonly Row[]; nextCursor?: string }>(
    () => (asked ? call('get /api/v1/usage', asked) : usageInPortal(days)),
    JSON.stringify([asked, days]),
  );
  const bid = of?.billingId;
  const path = bid && `${addressOf('get /api/v1/usage/{bid}', { bid, ...days })}&format=csv`;
  return (
    <Section
      title={`${title}, last ${DAYS} days`}
      action={action ?? (path && <SaveButton path={path} file={`usage-${bid}.csv`} text="Download CSV" />)}
      of={read}
    >
      {({ data, nextCursor }) => {
        if (nextCursor !== undefined)
          return <Empty>There are more usage names than one chart can show: the page of all usage has them.</Empty>;
        if (data.length === 0) return <Empty>{empty}</Empty>;
        return (
          <>
            <UsageChart rows={data} {...days} interval="day" />
            <Table
              label={isSum ? 'Credits used by usage' : 'Usage by day'}
              columns={columnsOf({ groupBy: 'usageName', interval: 'day', timezone: 'UTC' }).slice(isSum ? 1 : 0)}
              items={isSum ? sumsOf(data) : newestFirst(data, ({ start }) => start)}
            />
          </>
        );
      }}
    </Section>
  );
}

async function usageInPortal(days: { from: string; to: string }) {
  const { data } = await call('get /api/v1/portal/usage', days);
  const rows = data.map(({ day, billingUsageName, ...row }) => ({ ...row, start: day, usageName: billingUsageName }));
  return { data: rows };
}

function UsageChart({ rows, from, to, interval }: Pick<Asked, 'from' | 'to' | 'interval'> & { rows: readonly Row[] }) {
  const parts = rows.map((row) => [periodOf(row.start, interval), nameOf(row), Number(row.totalBillingUsage)] as const);
  return <StackedBars {...chartOf(parts, periodsFrom(from, to, interval))} />;
}

function columnsOf({ groupBy, interval, timezone }: Pick<Asked, 'groupBy' | 'interval' | 'timezone'>): Column<Row>[] {
  const grouped = groups.filter(({ group }) => groupBy.split(',').includes(group));
  return [
    {
      title: `${interval === 'day' ? 'Day' : 'From'} (${timezone})`,
      width: '13rem',
      text: ({ start, partial }) =>
        `${start.slice(0, interval === 'hour' ? 16 : 10).replace('T', ' ')}${partial ? ' in part' : ''}`,
    },
    ...grouped,
    { title: 'Credits', amount: 'totalBillingUsage' },
    { title: 'Events', width: '8rem', amount: 'events' },
  ];
}

/** The credits that some rows have together. */
export function sumOf(rows: readonly Pick<Row, 'totalBillingUsage'>[]): string {
  return formatSum(rows.reduce((sum, { totalBillingUsage }) => sum + microsOf(totalBillingUsage), 0n));
}

// By its digits: a double does not hold all of a large sum's.
function microsOf(credits: string): bigint {
  const [whole = '', fraction = ''] = credits.split('.');
  return BigInt(whole + fraction.padEnd(6, '0'));
}

// The rows of a name as one, the largest first.
function sumsOf(rows: readonly Row[]): Row[] {
  const sums = [...Map.groupBy(rows, nameOf).values()].map((all) => ({
    ...all[0]!,
    totalBillingUsage: sumOf(all),
    events: all.reduce((sum, { events }) => sum + events, 0),
  }));
  return sums.toSorted((a, b) => Number(b.totalBillingUsage) - Number(a.totalBillingUsage));
}

function meterOf({ billingId, externalMeterId = billingId }: Row) {
  return billingId && externalMeterId;
}

function nameOf(row: Row): string {
  return groups.flatMap(({ text }) => text(row) || []).join(', ') || UNNAMED;
}
