import { useMemo, useState } from 'preact/hooks';
import type { Input } from '../data/call.ts';
import { readItems, useMay, useRead, type ItemOf } from '../data/hooks.ts';
import { Dialog, Opens } from '../parts/dialog.tsx';
import { Form } from '../parts/form.tsx';
import { Page } from '../parts/page.tsx';
import { List } from '../parts/table.tsx';
import { Facts, Time } from '../parts/text.tsx';

type Line = ItemOf<'get /api/v1/audit-log'>;
type Find = Pick<Input<'get /api/v1/audit-log'>, 'outcome' | 'resourceId' | 'requestId' | 'from' | 'to'>;

/** Who changed what, and who was denied. */
export function Audit() {
  const [find, setFind] = useState<Find>({});
  const names = useTokenNames();
  const opened = (line: Line) => (
    <Opens text={line.operation.replace('/api/v1', '')} look="link" title={line.operation}>
      <Details of={line} by={names.get(line.tokenId ?? '')} />
    </Opens>
  );
  return (
    <Page title="Audit log">
      <Form
        submit="Find"
        look="row"
        fields={[
          { name: 'from', label: 'From the day', as: 'date' },
          { name: 'to', label: 'To the day', as: 'date' },
          { name: 'outcome', label: 'Outcome', options: [['', 'changed or denied'], 'changed', 'denied'] },
          { name: 'resourceId', label: 'Id of what was changed' },
          { name: 'requestId', label: 'Request' },
        ]}
        onSubmit={async ({ outcome, ...given }) => setFind({ ...given, ...(outcome && { outcome }) })}
      />
      <List
        label="Audit log"
        of="get /api/v1/audit-log"
        input={{ limit: 200, order: 'newest', ...find }}
        columns={[
          { title: 'When', width: '11.5rem', time: 'createdAt' },
          { title: 'What', width: '33%', cell: opened },
          { title: 'Of', width: '17rem', code: 'resourceId' },
          { title: 'By', cell: ({ tokenId }) => <Actor id={tokenId} name={names.get(tokenId ?? '')} /> },
          { title: 'Outcome', width: '7rem', state: ({ outcome }) => [outcome === 'denied' ? 'bad' : 'good', outcome] },
        ]}
        empty="No line fits. Choose other days, or fewer conditions."
      />
    </Page>
  );
}

/** The names of the team's access tokens by id, where the session may read them. */
function useTokenNames(): ReadonlyMap<string, string> {
  const mayRead = useMay()('token:write');
  const { value } = useRead(async () => (mayRead ? readItems('get /api/v1/access-token', { limit: 200 }) : []), '');
  return useMemo(() => new Map(value?.map(({ id, name }) => [id, name])), [value]);
}

/** Whose token made a change. */
function Actor({ id = 'operator', name }: { id: string | undefined; name: string | undefined }) {
  return name === undefined ? <code title={id}>{id}</code> : <span title={id}>{name}</span>;
}

function Details({ of: line, by }: { of: Line; by: string | undefined }) {
  const { outcome, errorCode, attempts = 1, before = {}, after = {} } = line;
  const differences = Object.keys({ ...before, ...after }).flatMap((name) => {
    const [was, is] = [before[name], after[name]].map((value) => JSON.stringify(value) ?? 'nothing');
    return was === is ? [] : [[name, `${was} → ${is}`] as const];
  });
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
      {differences.length > 0 && <h2>What changed</h2>}
      <Facts of={differences} />
    </Dialog>
  );
}
