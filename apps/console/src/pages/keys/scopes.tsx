import { call } from '../../data/call.ts';
import { usePages, type ItemOf } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Page } from '../../parts/page.tsx';
import { PagedTable, type Column } from '../../parts/table.tsx';

type Scope = ItemOf<'get /api/v1/workspace/{id}/scopes'>;

const columns: readonly Column<Scope>[] = [
  { title: 'Scope', code: 'representation', isMain: true, below: 'name' },
  { title: 'Name', text: 'name', isExtra: true },
  { title: 'Description', text: ({ description }) => description ?? '', isExtra: true },
];
const change: Column<Scope> = { title: 'Change', width: '10.5rem', cell: (scope) => <Change of={scope} /> };

/** What keys of the workspace can be granted. */
export function Scopes() {
  const mayWrite = useMay()('workspace:write');
  const { id } = useWorkspace();
  return (
    <Page title="Scopes" action={mayWrite && <Save />}>
      <PagedTable
        label="Scopes"
        columns={mayWrite ? [...columns, change] : columns}
        pages={usePages('get /api/v1/workspace/{id}/scopes', { id })}
        empty="No scope yet. A scope stands for something in your API, such as invoices; keys are granted to create, read, update or delete it."
      />
    </Page>
  );
}

function Change({ of: scope }: { of: Scope }) {
  const { id } = useWorkspace();
  return (
    <>
      <Save scope={scope} />{' '}
      <Ask
        text="Delete"
        look="outline small"
        label={`Delete ${scope.representation}`}
        title="Delete the scope"
        submit="Delete for good"
        onSubmit={() => call('delete /api/v1/workspace/{id}/scope/{sid}', { id, sid: scope.id })}
      >
        <p>
          Every key loses <code>{scope.representation}</code> at once.
        </p>
      </Ask>
    </>
  );
}

function Save({ scope }: { scope?: Scope }) {
  const { id } = useWorkspace();
  const { representation, name, description } = scope ?? {};
  const hint = 'What your API asks for, e.g. invoices. It stays once a key has the scope.';
  const button = scope
    ? ({
        text: 'Edit',
        look: 'outline small',
        label: `Edit ${representation}`,
        title: 'Edit the scope',
        submit: 'Save',
      } as const)
    : ({ look: 'main', title: 'New scope', submit: 'Create scope' } as const);
  return (
    <Ask
      {...button}
      fields={[
        { name: 'representation', label: 'Representation', required: true, value: representation, hint },
        { name: 'name', label: 'Name', required: true, value: name },
        { name: 'description', label: 'Description', clears: true, value: description ?? '' },
      ]}
      onSubmit={async (given) =>
        scope
          ? call('patch /api/v1/workspace/{id}/scope/{sid}', { id, sid: scope.id, ...given })
          : call('post /api/v1/workspace/{id}/scope', { id, ...given })
      }
    />
  );
}
