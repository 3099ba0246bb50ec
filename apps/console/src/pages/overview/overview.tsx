import { useMemo } from 'preact/hooks';
import { microsIn, textOf } from '../../data/amounts.ts';
import type { Output } from '../../data/call.ts';
import { useAnswer } from '../../data/hooks.ts';
import { useOutcomes } from '../../data/outcomes.ts';
import { daysFrom } from '../../data/periods.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { chartOf, StackedBars } from '../../parts/chart.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { OutcomeSums } from '../../parts/outcomes.tsx';
import { Page, Section, usePath } from '../../parts/page.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Empty, UNNAMED } from '../../parts/text.tsx';
import { Books, FailingWebhooks, HitLimits, LowCustomers } from './panels.tsx';
import { DAYS, lastDays, lastUsage } from './questions.ts';

const LIVE_MS = 10_000;
const STATE_MS = 60_000;
const needs = ['usage:read', 'billing:read', 'webhook:read'] as const;

type Row = Output<'get /api/v1/usage'>['data'][number];
type Sum = { name: string; micros: bigint; events: number };

const columns: readonly Column<Sum>[] = [
  { title: 'Usage', text: 'name', isMain: true },
  { title: 'Credits', amount: ({ micros }) => textOf(micros) },
  { title: 'Events', amount: 'events', isExtra: true },
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
  return (
    <Section title="Verifications per minute, last hour">
      <Loaded of={useOutcomes({ workspaceId, groupBy: 'status' }, 'hour', LIVE_MS)}>
        {({ counts: { data }, chart }) => (
          <div class={data.length > 0 ? 'beside' : ''}>
            {data.length > 0 && <StackedBars {...chart} />}
            <OutcomeSums data={data} />
          </div>
        )}
      </Loaded>
    </Section>
  );
}

function LastUsage() {
  const { id: workspaceId } = useWorkspace();
  const pathOf = usePath();
  const days = useMemo(lastDays, []);
  return (
    <Section title={`Credits used, last ${DAYS} days`} action={<a href={pathOf('usage')}>All usage</a>}>
      <Loaded of={useAnswer(...lastUsage(workspaceId, days))}>
        {({ data, nextCursor }) => {
          if (nextCursor !== undefined)
            return <Empty>There are more usage names than one chart can show: the page of all usage has them.</Empty>;
          if (data.length === 0) return <Empty>Nothing was used. Verify a key with a cost, and it shows here.</Empty>;
          return (
            <>
              <StackedBars {...chartOf(data, daysFrom(...days), { periodOf, nameOf, amountOf })} />
              <Table
                label="Credits used by usage"
                columns={columns}
                items={sumsOf(data)}
                keyOf={(one) => one.name}
                empty=""
              />
            </>
          );
        }}
      </Loaded>
    </Section>
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

function periodOf({ start }: Row): string {
  return start.slice(0, 10);
}

function amountOf({ totalBillingUsage }: Row): number {
  return Number(totalBillingUsage);
}
