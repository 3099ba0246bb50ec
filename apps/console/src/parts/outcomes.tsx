import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { call, type Input, type Output } from '../data/call.ts';
import { useRead, useWorkspace, type Read } from '../data/hooks.ts';
import { spans, spanUntilNow, type Span } from '../data/time.ts';
import { chartOf, StackedBars, type Chart } from './chart.tsx';
import { Field } from './form.tsx';
import { Section } from './page.tsx';
import { Table, type Column } from './table.tsx';
import { Loaded, State } from './text.tsx';

type Counts = Output<'get /api/v1/verifications'>;
export type Count = Counts['data'][number];
type Status = NonNullable<Count['status']>;
export type Decision = Output<'get /api/v1/verifications/recent'>['data'][number];
/** Whose decisions: a key's, or those of all keys of a meter. */
export type Of = Input<'get /api/v1/verifications/recent'>;
type Asked = Pick<Input<'get /api/v1/verifications'>, 'apiKeyId' | 'externalMeterId'> & {
  workspaceId: string;
  groupBy: string;
};

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
export function useOutcomes(filters: Asked, span: Span, everyMs?: number): Read<{ counts: Counts; chart: Chart }> {
  return useRead(
    async (signal) => {
      const { asked, labels: periods } = spanUntilNow(span);
      const counts = await call('get /api/v1/verifications', { ...filters, ...asked }, signal);
      const rows = counts.data.map((row) => [String(Date.parse(row.start)), row.status ?? '', row.count] as const);
      const { labels, lines } = chartOf(rows, periods);
      const coloured = lines.map((line) => ({ ...line, colour: colours[line.name as Status] }));
      // What passed stands at the foot.
      const sorted = coloured.toSorted((a, b) => Number(b.name === 'VALID') - Number(a.name === 'VALID'));
      return { counts, chart: { labels, lines: sorted } };
    },
    JSON.stringify([filters, span]),
    everyMs,
  );
}

/** What calls were answered over time. */
export function Outcomes({ of }: { of: Partial<Asked> }) {
  const { id: workspaceId } = useWorkspace();
  const [span, setSpan] = useState<Span>('day');
  return (
    <Section title="Outcomes">
      <Field label="Time" name="span" options={spans} value={span} onText={(one) => setSpan(one as Span)} />
      <Loaded of={useOutcomes({ workspaceId, ...of, groupBy: 'status,reason,limit' }, span)}>
        {({ counts, chart }) => (
          <>
            {counts.data.length > 0 && <StackedBars {...chart} />}
            <OutcomeSums {...counts} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** What a call was answered, as a word with a colour; its reason stands below where there is no room beside it. */
export function Outcome({ status, reason }: { status: string | undefined; reason?: string | undefined }) {
  return (
    <>
      <State kind={status === 'VALID' ? 'good' : 'bad'}>{status}</State>
      {reason && <span class="only-narrow">{reason}</span>}
    </>
  );
}

/** Decisions one by one, newest first. */
export function Decisions({ items, withKey }: { items: readonly Decision[]; withKey: boolean }) {
  const { pathOf } = useWorkspace();
  const needs = withKey ? undefined : false;
  const columns: Column<Decision>[] = [
    { title: 'When', width: '12.5rem', time: 'time' },
    { title: 'Answer', cell: Outcome },
    { title: 'Reason', text: 'reason', isExtra: true },
    { title: 'Limit', text: ({ limitedBy }) => limitedBy && `${limitedBy.on}/${limitedBy.name}`, isExtra: true },
    { title: 'Route', text: 'route', isExtra: true },
    { title: 'Address', text: 'clientAddress', isExtra: true },
    { title: 'Key', text: 'apiKeyId', link: (one) => pathOf(`keys/${one.apiKeyId}`), isExtra: true, needs },
  ];
  return (
    <Table
      label="Recent decisions"
      columns={columns}
      items={items}
      // Two of the same moment look alike, and the list is read as a whole.
      keyOf={(one) => String(items.indexOf(one))}
      empty="No call in the last 24 hours. A decision shows here about two seconds after it was made."
    />
  );
}

type Sum = { key: string; outcome: ComponentChildren; reason: string; limit: string; calls: number };

/** How many calls had which answer, the most frequent first; and those that a limit which only watches would refuse. */
export function OutcomeSums({ data, wouldRefuse = [] }: Partial<Counts> & Pick<Counts, 'data'>) {
  const items = [...summed(data, false), ...summed(wouldRefuse, true)];
  const needs = items.some(({ reason }) => reason) ? undefined : false;
  return (
    <Table
      label="Calls by answer"
      columns={[
        { title: 'Answer', cell: ({ outcome }) => outcome },
        { title: 'Reason', text: 'reason', isExtra: true, needs },
        { title: 'Limit', text: 'limit', isExtra: true, needs },
        { title: 'Calls', width: '7rem', amount: 'calls' },
      ]}
      items={items}
      keyOf={({ key }) => key}
      empty="No call in this time. Counts show here about two seconds after a call."
    />
  );
}

function summed(rows: readonly Count[], isWatched: boolean): Sum[] {
  // Of a limit that only watches it is one line, whatever the call was answered.
  const keyOf = ({ status, reason, limit }: Count) => (isWatched ? `watched ${limit}` : `${status} ${reason} ${limit}`);
  const sums = [...Map.groupBy(rows, keyOf)].map(([key, all]): Sum => {
    const { status, reason = '', limit = '' } = all[0]!;
    const calls = all.reduce((sum, { count }) => sum + count, 0);
    if (!isWatched) return { key, outcome: <Outcome status={status} reason={reason} />, reason, limit, calls };
    return { key, outcome: <State kind="idle">would be refused</State>, reason: 'only watched', limit, calls };
  });
  return sums.toSorted((a, b) => b.calls - a.calls);
}
