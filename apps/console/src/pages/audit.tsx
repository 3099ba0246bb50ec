import { useMemo, useState } from 'preact/hooks';
import { call, type Input, type Output } from '../data/call.ts';
import { readItems, usePages, useRead } from '../data/hooks.ts';
import { useMay } from '../data/session.ts';
import { Choice, Dialog, Field, Form } from '../parts/form.tsx';
import { Page } from '../parts/page.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';
import { Facts, State, Time } from '../parts/text.tsx';

type Line = Output<'get /api/v1/audit-log'>['auditLog'][number];
type Find = Pick<Input<'get /api/v1/audit-log'>, 'outcome' | 'resourceId' | 'requestId' | 'from' | 'to'>;

/** Who changed what, and who was denied. */
export function Audit() {
  const [find, setFind] = useState<Find>({});
  const [shown, setShown] = useState<Line>();
  const names = useTokenNames();
  const pages = usePages(
    async (cursor, signal) => {
      const input = { limit: 200, order: 'newest' as const, ...find, ...(cursor && { cursor }) };
      const page = await call('get /api/v1/audit-log', input, signal);
      return { items: page.auditLog, nextCursor: page.nextCursor };
    },
    [find],
  );
  const columns: readonly Column<Line>[] = [
    { title: 'When', width: '11.5rem', cell: ({ createdAt }) => <Time at={createdAt} /> },
    {
      title: 'What',
      width: '33%',
      isMain: true,
      below: ({ resourceId }) => resourceId,
      cell: (line) => (
        <button type="button" class="link" title={line.operation} onClick={() => setShown(line)}>
          {line.operation.replace('/api/v1', '')}
        </button>
      ),
    },
    {
      title: 'Of',
      width: '17rem',
      cell: ({ resourceId }) => <code title={resourceId}>{resourceId}</code>,
      isExtra: true,
    },
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
        isRow
        onSubmit={async (value) => {
          const outcome = value('outcome') as Find['outcome'] | '';
          setFind({
            ...(value('from') && { from: value('from') }),
            ...(value('to') && { to: value('to') }),
            ...(outcome && { outcome }),
            ...(value('resourceId') && { resourceId: value('resourceId') }),
            ...(value('requestId') && { requestId: value('requestId') }),
          });
        }}
      >
        <div class="finder">
          <Field label="From the day" name="from" type="date" />
          <Field label="To the day" name="to" type="date" />
          <Choice
            label="Outcome"
            name="outcome"
            options={[
              ['', 'changed or denied'],
              ['changed', 'changed'],
              ['denied', 'denied'],
            ]}
          />
          <Field label="Id of what was changed" name="resourceId" />
          <Field label="Request" name="requestId" />
        </div>
      </Form>
      <PagedTable
        label="Audit log"
        columns={columns}
        pages={pages}
        keyOf={({ id }) => id}
        empty="No line fits. Choose other days, or fewer conditions."
      />
      {shown && <Details of={shown} by={names.get(shown.tokenId ?? '')} onClose={() => setShown(undefined)} />}
    </Page>
  );
}

/** The names of the team's access tokens by id, where the session may read them. */
function useTokenNames(): ReadonlyMap<string, string> {
  const mayRead = useMay()('token:write');
  const { value } = useRead(async (signal) => {
    if (!mayRead) return [];
    return readItems(async (input) => {
      const { accessTokens, nextCursor } = await call('get /api/v1/access-token', input, signal);
      return { items: accessTokens, nextCursor };
    });
  }, []);
  return useMemo(() => new Map(value?.map(({ id, name }) => [id, name])), [value]);
}

/** Whose token made a change. */
function Actor({ id = 'operator', name }: { id: string | undefined; name: string | undefined }) {
  return name === undefined ? <code title={id}>{id}</code> : <span title={id}>{name}</span>;
}

function Details({ of: line, by, onClose }: { of: Line; by: string | undefined; onClose(): void }) {
  return (
    <Dialog title={line.operation} onClose={onClose}>
      <Facts
        of={[
          ['When', <Time at={line.createdAt} />],
          [
            'Outcome',
            line.errorCode === undefined
              ? line.outcome
              : `${line.outcome} with ${line.errorCode}, ${line.attempts ?? 1} times`,
          ],
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
  const changed = names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  if (changed.length === 0) return null;
  return (
    <div class="table" role="region" aria-label="What changed" tabIndex={0}>
      <table class="wraps">
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {changed.map((name) => (
            <tr key={name}>
              <td>{name}</td>
              <td>{JSON.stringify(before[name])}</td>
              <td>{JSON.stringify(after[name])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
