import type { Input } from '../../data/call.ts';
import { useAnswer, type ItemOf } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Form } from '../../parts/form.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { Section, usePath } from '../../parts/page.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Empty } from '../../parts/text.tsx';
import type { ApiKey } from './keys.tsx';

type Scope = ItemOf<'get /api/v1/workspace/{id}/scopes'>;
type Change = Pick<Input<'patch /api/v1/workspace/{id}/api-key/{akid}'>, 'scopes'>;
type Props = { of: ApiKey; mayChange: boolean; onChange(what: Change): Promise<unknown> };

const flags = [
  ['create', 'create'],
  ['read', 'read'],
  ['update', 'update'],
  ['del', 'delete'],
] as const;

/** What the key may do: each scope of the workspace with its four rights. */
export function KeyScopes(props: Props) {
  const mayRead = useMay()('workspace:read');
  return <Section title="Scopes">{mayRead ? <Editor {...props} /> : <Granted of={props.of} />}</Section>;
}

function Editor({ of: key, mayChange, onChange }: Props) {
  const { id } = useWorkspace();
  const pathOf = usePath();
  const granted = new Map(key.scopes.map((scope) => [scope.representation, scope]));
  const columns: readonly Column<Scope>[] = [
    { title: 'Scope', cell: ({ name, representation }) => <code title={name}>{representation}</code> },
    ...flags.map(([flag, title]) => ({
      title,
      isMark: true as const,
      cell: ({ representation }: Scope) => (
        <input
          type="checkbox"
          name={`${flag} ${representation}`}
          aria-label={`${title} ${representation}`}
          defaultChecked={granted.get(representation)?.[flag] ?? false}
          disabled={!mayChange}
        />
      ),
    })),
  ];
  const empty = (
    <>
      The workspace has no scopes. <a href={pathOf('scopes')}>Make one</a> to limit what a key may do.
    </>
  );
  const save = (all: readonly Scope[], form: FormData) => {
    const scopes = all.map(({ representation }) => {
      const [create, read, update, del] = flags.map(([flag]) => form.has(`${flag} ${representation}`));
      return { representation, create, read, update, del };
    });
    return onChange({ scopes: scopes.filter((one) => flags.some(([flag]) => one[flag])) });
  };
  return (
    <Loaded of={useAnswer('get /api/v1/workspace/{id}/scopes', { id })}>
      {({ scopes }) => {
        const table = <Table label="Scopes of the key" columns={columns} items={scopes} isFlat="form" empty={empty} />;
        if (!mayChange || scopes.length === 0) return table;
        return (
          <Form submit="Save scopes" onSubmit={(_, form) => save(scopes, form)}>
            {table}
          </Form>
        );
      }}
    </Loaded>
  );
}

function Granted({ of: { scopes } }: { of: ApiKey }) {
  if (scopes.length === 0) return <Empty>The key has no scopes.</Empty>;
  return (
    <ul>
      {scopes.map((scope) => (
        <li key={scope.representation}>
          <code>{scope.representation}</code>{' '}
          {flags
            .filter(([flag]) => scope[flag])
            .map(([, title]) => title)
            .join(', ')}
        </li>
      ))}
    </ul>
  );
}
