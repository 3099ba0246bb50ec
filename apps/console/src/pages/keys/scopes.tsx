import { call, type Input } from '../../data/call.ts';
import { useAnswer, useMay, useWorkspace, type Answered, type ItemOf, type Needs } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Page, Section } from '../../parts/page.tsx';
import { List, Table, type Column } from '../../parts/table.tsx';
import { PageLink } from '../../parts/text.tsx';
import type { ApiKey } from './keys.tsx';

type Scope = ItemOf<'get /api/v1/workspace/{id}/scopes'>;

/** What keys of the workspace can be granted. */
export function Scopes() {
  const { id } = useWorkspace();
  const make = (
    <Ask
      does="New"
      one="scope"
      needs="workspace:write"
      fields={fieldsOf({})}
      onSubmit={(given) => call('post /api/v1/workspace/{id}/scope', { id, ...given })}
    />
  );
  const change = (scope: Scope) => (
    <>
      <Ask
        does="Edit"
        one="scope"
        row={scope.representation}
        fields={fieldsOf(scope)}
        onSubmit={(given) => call('patch /api/v1/workspace/{id}/scope/{sid}', { id, sid: scope.id, ...given })}
      />{' '}
      <Ask
        does="Delete"
        one="scope"
        row={scope.representation}
        onSubmit={() => call('delete /api/v1/workspace/{id}/scope/{sid}', { id, sid: scope.id })}
        says={`Every key loses ${scope.representation} at once.`}
      />
    </>
  );
  return (
    <Page title="Scopes" action={make}>
      <List
        label="Scopes"
        of="get /api/v1/workspace/{id}/scopes"
        input={{ id }}
        columns={[
          { title: 'Scope', code: 'representation', isMain: true, below: 'name' },
          { title: 'Name', text: 'name', isExtra: true },
          { title: 'Description', text: ({ description }) => description ?? '', isExtra: true },
          { title: 'Change', width: '10.5rem', needs: 'workspace:write', cell: change },
        ]}
        empty="No scope yet. A scope stands for something in your API, such as invoices; keys are granted to create, read, update or delete it."
      />
    </Page>
  );
}

function fieldsOf({ representation, name, description }: Partial<Scope>) {
  const hint = 'What your API asks for, e.g. invoices. It stays once a key has the scope.';
  return [
    { name: 'representation', label: 'Representation', required: true, value: representation, hint },
    { name: 'name', label: 'Name', required: true, value: name },
    { name: 'description', label: 'Description', clears: true, value: description ?? '' },
  ] as const;
}

type Granted = { representation: string; name?: string };
type ScopesChange = Pick<Input<'patch /api/v1/workspace/{id}/api-key/{akid}'>, 'scopes'>;
type Props = { of: ApiKey; needs: Needs; onChange(what: ScopesChange): Promise<unknown> };

const flags = [
  ['create', 'create'],
  ['read', 'read'],
  ['update', 'update'],
  ['del', 'delete'],
] as const;

/** What the key may do: each scope of the workspace with its four rights; its own ones where no others may be read. */
export function KeyScopes({ of: key, needs, onChange }: Props) {
  const { id } = useWorkspace();
  const may = useMay();
  const mayRead = may('workspace:read');
  const all = useAnswer('get /api/v1/workspace/{id}/scopes', mayRead ? { id } : undefined);
  const read: Answered<{ scopes: readonly Granted[] }> = mayRead ? all : { value: key };
  const mayChange = mayRead && may(needs);
  const granted = new Map(key.scopes.map((scope) => [scope.representation, scope]));
  const columns: readonly Column<Granted>[] = [
    { title: 'Scope', cell: ({ name, representation }) => <code title={name}>{representation}</code> },
    ...flags.map(([flag, title]) => ({
      title,
      isMark: true as const,
      cell: ({ representation }: Granted) => (
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
      The workspace has no scopes. <PageLink to="scopes">Make one</PageLink> to limit what a key may do.
    </>
  );
  const save = (all: readonly Granted[], form: FormData) => {
    const scopes = all.map(({ representation }) => {
      const [create, read, update, del] = flags.map(([flag]) => form.has(`${flag} ${representation}`));
      return { representation, create, read, update, del };
    });
    return onChange({ scopes: scopes.filter((one) => flags.some(([flag]) => one[flag])) });
  };
  return (
    <Section title="Scopes" of={read}>
      {({ scopes }) => {
        return (
          <Form
            submit="Save scopes"
            needs={mayChange && scopes.length > 0 && needs}
            onSubmit={(_, form) => save(scopes, form)}
          >
            <Table label="Scopes of the key" columns={columns} items={scopes} isFlat="form" empty={empty} />
          </Form>
        );
      }}
    </Section>
  );
}
