import { useMemo, useState } from 'preact/hooks';
import { call, queryOf, type Input, type Output } from '../data/call.ts';
import { usePages } from '../data/hooks.ts';
import { DAY_MS, dayOf, newestFirst, periodOf, periodsFrom, type UsageInterval } from '../data/periods.ts';
import { useWorkspace } from '../data/session.ts';
import { chartOf, StackedBars } from '../parts/chart.tsx';
import { Choice, Field, Form } from '../parts/form.tsx';
import { Page, usePath } from '../parts/page.tsx';
import { SaveButton } from '../parts/save.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';
import { Amount, UNNAMED } from '../parts/text.tsx';

type Row = Output<'get /api/v1/usage'>['data'][number];
type Group = (typeof groups)[number][0];
type Filter = (typeof filters)[number][0];
type Asked = Record<'from' | 'to' | 'timezone' | 'groupBy', string> & { interval: UsageInterval } & Partial<
    Record<Filter, string>
  >;

const DAYS = 30;
// The chart shows what was read; a longer answer comes page by page.
const ROWS = 5_000;
const intervals = [
  ['hour', 'hour'],
  ['day', 'day'],
  ['week', 'week'],
  ['month', 'month'],
] as const;
const groups = [
  ['billing', 'Meter'],
  ['usageName', 'Usage'],
  ['key', 'Key'],
  ['route', 'Route'],
  ['customer', 'Customer'],
] as const;
const filters = [
  ['externalMeterId', 'Only the meter'],
  ['usageName', 'Only the usage'],
  ['apiKeyId', 'Only the key (id)'],
  ['route', 'Only the route'],
  ['customerId', 'Only the customer'],
] as const;

/** What was used in the workspace, summed as one asks for it. */
export function UsagePage() {
  const { id: workspaceId, timezone } = useWorkspace();
  const [asked, setAsked] = useState<Asked>(() => ({
    from: dayOf(Date.now() - (DAYS - 1) * DAY_MS),
    to: dayOf(Date.now()),
    interval: 'day',
    timezone,
    groupBy: 'billing,usageName',
  }));
  const { readOn, ...pages } = usePages(
    async (cursor, signal) => {
      const input: Input<'get /api/v1/usage'> = { workspaceId, ...asked, limit: ROWS, ...(cursor && { cursor }) };
      const page = await call('get /api/v1/usage', input, signal);
      return { items: page.data, nextCursor: page.nextCursor };
    },
    [workspaceId, asked],
  );
  const { items, isWhole } = pages;
  const [, shown] = readOn;
  const chart = useMemo(
    () =>
      chartOf(items, periodsFrom(shown.from, shown.to, shown.interval), {
        periodOf: ({ start }) => periodOf(start, shown.interval),
        nameOf,
        amountOf: ({ totalBillingUsage }) => Number(totalBillingUsage),
      }),
    [items],
  );
  const pathOf = usePath();
  const file = (format: string) => `/api/v1/usage${queryOf({ workspaceId, ...asked, format })}`;
  return (
    <Page
      title="Usage"
      action={
        <>
          <SaveButton path={file('csv')} file="usage.csv">
            Download CSV
          </SaveButton>
          <SaveButton path={file('parquet')} file="usage.parquet">
            Download Parquet
          </SaveButton>
        </>
      }
    >
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
  return (
    <Form
      submit="Show"
      onSubmit={async (value, form) =>
        onAsk({
          from: value('from'),
          to: value('to'),
          interval: value('interval') as UsageInterval,
          timezone: value('timezone'),
          // The api groups by two of them where none is asked for.
          groupBy: (form.getAll('group') as string[]).join(',') || 'usageName',
          ...Object.fromEntries(filters.map(([name]) => [name, value(name)]).filter(([, text]) => text !== '')),
        })
      }
    >
      <div class="finder">
        <Field label="From the day" name="from" type="date" required value={asked.from} />
        <Field label="To the day" name="to" type="date" required value={asked.to} />
        <Choice label="By" name="interval" options={intervals} value={asked.interval} />
        <Field label="Time zone" name="timezone" required value={asked.timezone} />
        <fieldset class="wide">
          <legend>Summed up by</legend>
          <div class="choices">
            {groups.map(([group, title]) => (
              <label key={group} class="check">
                <input type="checkbox" name="group" value={group} defaultChecked={isIn(asked, group)} /> {title}
              </label>
            ))}
          </div>
        </fieldset>
        <details class="wide">
          <summary>Only some of it</summary>
          <div class="finder">
            {filters.map(([name, label]) => (
              <Field key={name} label={label} name={name} value={asked[name] ?? ''} />
            ))}
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
  const cells: Record<Group, Column<Row>['cell']> = {
    billing: ({ billingId, externalMeterId }) =>
      billingId ? (
        <a href={pathOf(`customers/${billingId}`)} title={externalMeterId ?? billingId}>
          {externalMeterId ?? billingId}
        </a>
      ) : (
        <span class="muted">none</span>
      ),
    usageName: ({ usageName }) => <span title={usageName}>{usageName}</span>,
    key: ({ apiKeyId }) =>
      apiKeyId ? (
        <a href={pathOf(`keys/${apiKeyId}`)} title={apiKeyId}>
          {apiKeyId}
        </a>
      ) : (
        <span class="muted">correction</span>
      ),
    route: ({ route, other }) => (other ? <span class="muted">others</span> : <span title={route}>{route}</span>),
    customer: ({ customerId }) => <span title={customerId}>{customerId}</span>,
  };
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
    ...groups
      .filter(([group]) => isIn(asked, group))
      .map(([group, title], i) => ({
        title,
        cell: cells[group],
        ...(i === 0 ? { isMain: true, below: (row: Row) => restOf(row, asked) } : { isExtra: true }),
      })),
    { title: 'Credits', cell: ({ totalBillingUsage }) => <Amount of={totalBillingUsage} />, isNumber: true },
    { title: 'Events', width: '8rem', cell: ({ events }) => <Amount of={events} />, isNumber: true, isExtra: true },
  ];
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
