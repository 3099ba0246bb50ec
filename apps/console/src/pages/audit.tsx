import { useMemo, useState } from 'preact/hooks';
import type { Input } from '../data/call.ts';
import { readItems, usePages, useRead, type ItemOf } from '../data/hooks.ts';
import { useMay } from '../data/session.ts';
import { Dialog, Opens } from '../parts/dialog.tsx';
import { Form } from '../parts/form.tsx';
import { Page } from '../parts/page.tsx';
import { PagedTable, Table, type Column } from '../parts/table.tsx';
import { Facts, State, Time } from '../parts/text.tsx';

type Line = ItemOf<'get /api/v1/audit-log'>;
type Find = Pick<Input<'get /api/v1/audit-log'>, 'outcome' | 'resourceId' | 'requestId' | 'from' | 'to'>;

const diffColumns = [
  { title: 'Field', text: 'name' },
  { title: 'Before', text: 'before' },
  { title: 'After', text: 'after' },
] as const;
const outcomes = [
  ['', 'changed or denied'],
  ['changed', 'changed'],
  ['denied', 'denied'],
] as const;

/** Who changed what, and who was denied. */
export function Audit() {
  const [find, setFind] = useState<Find>({});
  const names = useTokenNames();
  const columns: readonly Column<Line>[] = [
    { title: 'When', width: '11.5rem', time: 'createdAt' },
    {
      title: 'What',
      width: '33%',
      isMain: true,
      below: 'resourceId',
      cell: (line) => (
        <Opens text={line.operation.replace('/api/v1', '')} look="link" title={line.operation}>
          <Details of={line} by={names.get(line.tokenId ?? '')} />
        </Opens>
      ),
    },
    { title: 'Of', width: '17rem', code: 'resourceId', isExtra: true },
    { title: 'By', cell: ({ tokenId }) => <Actor id={tokenId} name={names.get(tokenId ?? '')} />, isExtra: true },
    {
      title: 'Outcome',
      width: '7rem',
      cell: ({ outcome }) => <State kind={outcome === 'denied' ? 'bad' : 'good'}>{outcome}</State>,
    },
  ];
  return (
    <Page title="Audit log">
      <Form
        submit="Find"
        look="row"
        fields={[
          { name: 'from', label: 'From the day', as: 'date' },
          { name: 'to', label: 'To the day', as: 'date' },
          { name: 'outcome', label: 'Outcome', options: outcomes },
          { name: 'resourceId', label: 'Id of what was changed' },
          { name: 'requestId', label: 'Request' },
        ]}
        onSubmit={async ({ outcome, ...given }) => setFind({ ...given, ...(outcome && { outcome }) })}
      />
      <PagedTable
        label="Audit log"
        columns={columns}
        pages={usePages('get /api/v1/audit-log', { limit: 200, order: 'newest', ...find })}
        empty="No line fits. Choose other days, or fewer conditions."
      />
    </Page>
  );
}

/** The names of the team's access tokens by id, where the session may read them. */
function useTokenNames(): ReadonlyMap<string, string> {
  const mayRead = useMay()('token:write');
  const { value } = useRead(async (signal) => (mayRead ? readItems('get /api/v1/access-token', {}, signal) : []), '');
  return useMemo(() => new Map(value?.map(({ id, name }) => [id, name])), [value]);
}

/** Whose token made a change. */
function Actor({ id = 'operator', name }: { id: string | undefined; name: string | undefined }) {
  return name === undefined ? <code title={id}>{id}</code> : <span title={id}>{name}</span>;
}

function Details({ of: line, by }: { of: Line; by: string | undefined }) {
  const { outcome, errorCode, attempts = 1 } = line;
  return (
    <Dialog title={line.operation}>
      <Facts
        of={[
          ['When', <Time at={line.createdAt} />],
          ['Outcome', errorCode === undefined ? outcome : `${outcome} with ${errorCode}, ${attempts} times`],
          ['Of', <code>{line.resourceId ?? 'nothing'}</code>],
          ['By', <Actor id={line.tokenId} name={by} />],
          ['From', line.address ?? 'unknown'],
          ['With', line.userAgent ?? 'unknown'],
          ['Request', <code>{line.requestId ?? 'none'}</code>],
        ]}
      />
      <Diff before={line.before} after={line.after} />
    </Dialog>
  );
}

type Fields = Record<string, unknown> | undefined;

function Diff({ before = {}, after = {} }: { before: Fields; after: Fields }) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const all = names.map((name) => ({
    name,
    before: JSON.stringify(before[name]),
    after: JSON.stringify(after[name]),
  }));
  const changed = all.filter((one) => one.before !== one.after);
  if (changed.length === 0) return null;
  return (
    <Table
      label="What changed"
      columns={diffColumns}
      items={changed}
      keyOf={({ name }) => name}
      isFlat="wraps"
      empty=""
    />
  );
}
