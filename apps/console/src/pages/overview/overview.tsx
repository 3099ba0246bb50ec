import { useMemo } from 'preact/hooks';
import { microsIn, textOf } from '../../data/amounts.ts';
import { call, type Output } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useOutcomes } from '../../data/outcomes.ts';
import { daysFrom } from '../../data/periods.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { chartOf, StackedBars } from '../../parts/chart.tsx';
import { OutcomeSums } from '../../parts/outcomes.tsx';
import { Page, usePath } from '../../parts/page.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Amount, Empty, ProblemNote, UNNAMED } from '../../parts/text.tsx';
import { Books } from './books.tsx';
import { FailingWebhooks, HitLimits, LowCustomers } from './lists.tsx';
import { DAYS, lastDays, lastUsage } from './questions.ts';

const LIVE_MS = 10_000;
const STATE_MS = 60_000;
const needs = ['usage:read', 'billing:read', 'webhook:read'] as const;

type Row = Output<'get /api/v1/usage'>['data'][number];
type Sum = { name: string; micros: bigint; events: number };

const columns: readonly Column<Sum>[] = [
  { title: 'Usage', cell: ({ name }) => <span title={name}>{name}</span>, isMain: true },
  { title: 'Credits', cell: ({ micros }) => <Amount of={textOf(micros)} />, isNumber: true },
  { title: 'Events', cell: ({ events }) => <Amount of={events} />, isNumber: true, isExtra: true },
];

/** Is all well, and what happens now? */
export function Overview() {
  const may = useMay();
  return (
    <Page title="Overview">
      {!needs.some(may) && <Empty>The token may read neither usage, nor customers, nor webhooks.</Empty>}
      {may('usage:read') && <Now />}
      <div class="panels">
        {may('billing:read') && <LowCustomers everyMs={STATE_MS} />}
        {may('usage:read') && <HitLimits everyMs={STATE_MS} />}
        {may('webhook:read') && <FailingWebhooks everyMs={STATE_MS} />}
        {may('billing:read') && <Books everyMs={STATE_MS} />}
      </div>
      {may('usage:read') && <LastUsage />}
    </Page>
  );
}

function Now() {
  const { id: workspaceId } = useWorkspace();
  const { counts, chart, problem } = useOutcomes({ workspaceId, groupBy: 'status' }, 'hour', LIVE_MS);
  return (
    <section>
      <h2>Verifications per minute, last hour</h2>
      <ProblemNote problem={problem} />
      {!chart && !problem && <p aria-busy="true">Loading…</p>}
      {chart && counts && (
        <div class={counts.data.length > 0 ? 'beside' : ''}>
          {counts.data.length > 0 && <StackedBars {...chart} />}
          <OutcomeSums data={counts.data} />
        </div>
      )}
    </section>
  );
}

function LastUsage() {
  const { id: workspaceId } = useWorkspace();
  const pathOf = usePath();
  const days = useMemo(lastDays, []);
  const { value, problem } = useRead((signal) => call(...lastUsage(workspaceId, days), signal), [workspaceId]);
  const chart = useMemo(
    () =>
      value &&
      chartOf(value.data, daysFrom(...days), {
        periodOf: ({ start }) => start.slice(0, 10),
        nameOf,
        amountOf: ({ totalBillingUsage }) => Number(totalBillingUsage),
      }),
    [value],
  );
  return (
    <section>
      <header class="page">
        <h2>Credits used, last {DAYS} days</h2>
        <a href={pathOf('usage')}>All usage</a>
      </header>
      <ProblemNote problem={problem} />
      {!value && !problem && <p aria-busy="true">Loading…</p>}
      {value?.data.length === 0 && <Empty>Nothing was used. Verify a key with a cost, and it shows here.</Empty>}
      {value?.nextCursor !== undefined && (
        <Empty>There are more usage names than one chart can show: the page of all usage has them.</Empty>
      )}
      {value?.nextCursor === undefined && chart && chart.lines.length > 0 && (
        <>
          <StackedBars {...chart} />
          <Table
            label="Credits used by usage"
            columns={columns}
            items={sumsOf(value!.data)}
            keyOf={(one) => one.name}
            empty=""
          />
        </>
      )}
    </section>
  );
}

function sumsOf(rows: readonly Row[]): Sum[] {
  const sums = new Map<string, Sum>();
  for (const row of rows) {
    const name = nameOf(row);
    const sum = sums.get(name) ?? { name, micros: 0n, events: 0 };
    sum.micros += microsIn(row.totalBillingUsage);
    sum.events += row.events;
    sums.set(name, sum);
  }
  return [...sums.values()].toSorted((a, b) => Number(b.micros - a.micros));
}

function nameOf({ usageName }: Row): string {
  return usageName || UNNAMED;
}
