import type { ComponentChildren } from 'preact';
import type { Output } from '../data/call.ts';
import { useAnswer, type Read } from '../data/hooks.ts';
import type { Count } from '../data/outcomes.ts';
import { usePath } from './page.tsx';
import { Table, type Column } from './table.tsx';
import { State } from './text.tsx';

export type Decision = Output<'get /api/v1/verifications/recent'>['data'][number];
/** Whose decisions: a key's, or those of all keys of a meter. */
export type Of = { apiKeyId: string } | { workspaceId: string; externalMeterId: string };

/** Reads the last decisions. */
export function useDecisions(of: Of): Read<Decision[]> {
  const { value, ...read } = useAnswer('get /api/v1/verifications/recent', of);
  return { value: value?.data, ...read };
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
export function Decisions({ items, withKey = false }: { items: readonly Decision[]; withKey?: boolean }) {
  const pathOf = usePath();
  const columns: readonly Column<Decision>[] = [
    { title: 'When', width: '12.5rem', time: 'time' },
    { title: 'Answer', cell: ({ status, reason }) => <Outcome status={status} reason={reason} /> },
    { title: 'Reason', text: 'reason', isExtra: true },
    { title: 'Limit', text: ({ limitedBy }) => limitedBy && `${limitedBy.on}/${limitedBy.name}`, isExtra: true },
    { title: 'Route', text: 'route', isExtra: true },
    { title: 'Address', text: 'clientAddress', isExtra: true },
    ...(withKey
      ? [
          {
            title: 'Key',
            text: 'apiKeyId',
            link: ({ apiKeyId }: Decision) => pathOf(`keys/${apiKeyId}`),
            isExtra: true,
          } as const,
        ]
      : []),
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
export function OutcomeSums({ data, wouldRefuse = [] }: { data: readonly Count[]; wouldRefuse?: readonly Count[] }) {
  const sums = [...summed(data, false), ...summed(wouldRefuse, true)];
  return (
    <Table
      label="Calls by answer"
      columns={data.some(({ reason }) => reason) || wouldRefuse.length > 0 ? sumColumns : shortColumns}
      items={sums}
      keyOf={({ key }) => key}
      empty="No call in this time. Counts show here about two seconds after a call."
    />
  );
}

const answer: Column<Sum> = { title: 'Answer', cell: ({ outcome }) => outcome };
const calls: Column<Sum> = { title: 'Calls', width: '7rem', amount: 'calls' };
const shortColumns = [answer, calls];
const sumColumns: readonly Column<Sum>[] = [
  answer,
  { title: 'Reason', text: 'reason', isExtra: true },
  { title: 'Limit', text: 'limit', isExtra: true },
  calls,
];

function summed(rows: readonly Count[], isWatched: boolean): Sum[] {
  const sums = new Map<string, Sum>();
  for (const { status, reason = '', limit = '', count } of rows) {
    // Of a limit that only watches it is one line, whatever the call was answered.
    const key = isWatched ? `watched ${limit}` : `${status} ${reason} ${limit}`;
    const outcome = isWatched ? (
      <State kind="idle">would be refused</State>
    ) : (
      <Outcome status={status} reason={reason} />
    );
    const sum = sums.get(key) ?? { key, outcome, reason: isWatched ? 'only watched' : reason, limit, calls: 0 };
    sum.calls += count;
    sums.set(key, sum);
  }
  return [...sums.values()].toSorted((a, b) => b.calls - a.calls);
}
