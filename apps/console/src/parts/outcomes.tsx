import type { ComponentChildren } from 'preact';
import { call, type Output } from '../data/call.ts';
import { useRead } from '../data/hooks.ts';
import type { Count } from '../data/outcomes.ts';
import { usePath } from './page.tsx';
import { Table, type Column } from './table.tsx';
import { Amount, State, Time } from './text.tsx';

export type Decision = Output<'get /api/v1/verifications/recent'>['data'][number];
/** Whose decisions: a key's, or those of all keys of a meter. */
export type Of = { apiKeyId: string } | { workspaceId: string; externalMeterId: string };

/** Reads the last decisions. */
export function useDecisions(of: Of) {
  return useRead(
    async (signal) => (await call('get /api/v1/verifications/recent', of, signal)).data,
    [JSON.stringify(of)],
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
export function Decisions({ items, withKey = false }: { items: readonly Decision[]; withKey?: boolean }) {
  const pathOf = usePath();
  const columns: Column<Decision>[] = [
    { title: 'When', width: '12.5rem', cell: ({ time }) => <Time at={time} /> },
    { title: 'Answer', cell: ({ status, reason }) => <Outcome status={status} reason={reason} /> },
    { title: 'Reason', cell: ({ reason }) => <span title={reason}>{reason}</span>, isExtra: true },
    {
      title: 'Limit',
      cell: ({ limitedBy }) => limitedBy && <LimitName of={`${limitedBy.on}/${limitedBy.name}`} />,
      isExtra: true,
    },
    { title: 'Route', cell: ({ route }) => <span title={route}>{route}</span>, isExtra: true },
    { title: 'Address', cell: ({ clientAddress }) => clientAddress, isExtra: true },
  ];
  if (withKey)
    columns.push({
      title: 'Key',
      cell: ({ apiKeyId }) => (
        <a href={pathOf(`keys/${apiKeyId}`)} title={apiKeyId}>
          {apiKeyId}
        </a>
      ),
      isExtra: true,
    });
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

/** A limit by its place and name. */
export function LimitName({ of }: { of: string }) {
  return <span title={of}>{of}</span>;
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
const calls: Column<Sum> = { title: 'Calls', width: '7rem', cell: (sum) => <Amount of={sum.calls} />, isNumber: true };
const shortColumns = [answer, calls];
const sumColumns: readonly Column<Sum>[] = [
  answer,
  { title: 'Reason', cell: ({ reason }) => <span title={reason}>{reason}</span>, isExtra: true },
  { title: 'Limit', cell: ({ limit }) => limit && <LimitName of={limit} />, isExtra: true },
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
