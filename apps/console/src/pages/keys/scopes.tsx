import { useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Dialog, Field, Form } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { ProblemNote } from '../../parts/text.tsx';

type Scope = Output<'get /api/v1/workspace/{id}/scopes'>['scopes'][number];
type Doing = { what: 'edit' | 'delete'; scope: Scope } | { what: 'new' } | undefined;

/** What keys of the workspace can be granted. */
export function Scopes() {
  const may = useMay();
  const { id } = useWorkspace();
  const [doing, setDoing] = useState<Doing>();
  const { value, problem, reload } = useRead(
    (signal) => call('get /api/v1/workspace/{id}/scopes', { id }, signal),
    [id],
  );
  const close = () => setDoing(undefined);
  const changed = () => {
    close();
    reload();
  };
  const columns: Column<Scope>[] = [
    {
      title: 'Scope',
      cell: ({ representation }) => <code title={representation}>{representation}</code>,
      isMain: true,
      below: ({ name }) => name,
    },
    { title: 'Name', cell: ({ name }) => <span title={name}>{name}</span>, isExtra: true },
    {
      title: 'Description',
      cell: ({ description }) => <span title={description ?? ''}>{description}</span>,
      isExtra: true,
    },
  ];
  if (may('workspace:write')) {
    columns.push({
      title: 'Change',
      width: '10.5rem',
      cell: (scope) => (
        <>
          <button
            type="button"
            class="outline small"
            aria-label={`Edit ${scope.representation}`}
            onClick={() => setDoing({ what: 'edit', scope })}
          >
            Edit
          </button>{' '}
          <button
            type="button"
            class="outline small"
            aria-label={`Delete ${scope.representation}`}
            onClick={() => setDoing({ what: 'delete', scope })}
          >
            Delete
          </button>
        </>
      ),
    });
  }
  return (
    <Page
      title="Scopes"
      action={
        may('workspace:write') && (
          <button type="button" onClick={() => setDoing({ what: 'new' })}>
            New scope
          </button>
        )
      }
    >
      <ProblemNote problem={problem} />
      {!value && !problem && <p aria-busy="true">Loading…</p>}
      {value && (
        <Table
          label="Scopes"
          columns={columns}
          items={value.scopes}
          keyOf={(scope) => scope.id}
          empty="No scope yet. A scope stands for something in your API, such as invoices; keys are granted to create, read, update or delete it."
        />
      )}
      {doing?.what === 'new' && <EditScope onClose={close} onSaved={changed} />}
      {doing?.what === 'edit' && <EditScope scope={doing.scope} onClose={close} onSaved={changed} />}
      {doing?.what === 'delete' && (
        <Dialog title="Delete the scope" onClose={close}>
          <Form
            submit="Delete for good"
            onSubmit={async () => {
              await call('delete /api/v1/workspace/{id}/scope/{sid}', { id, sid: doing.scope.id });
              changed();
            }}
          >
            <p>
              Every key loses <code>{doing.scope.representation}</code> at once.
            </p>
          </Form>
        </Dialog>
      )}
    </Page>
  );
}

function EditScope({ scope, onClose, onSaved }: { scope?: Scope; onClose(): void; onSaved(): void }) {
  const { id } = useWorkspace();
  return (
    <Dialog title={scope ? 'Edit the scope' : 'New scope'} onClose={onClose}>
      <Form
        submit={scope ? 'Save' : 'Create scope'}
        onSubmit={async (value) => {
          const fields = {
            id,
            name: value('name'),
            representation: value('representation'),
            description: value('description') || null,
          };
          await (scope
            ? call('patch /api/v1/workspace/{id}/scope/{sid}', { sid: scope.id, ...fields })
            : call('post /api/v1/workspace/{id}/scope', fields));
          onSaved();
        }}
      >
        <Field
          label="Representation"
          name="representation"
          required
          value={scope?.representation ?? ''}
          hint="What your API asks for, e.g. invoices. It stays once a key has the scope."
        />
        <Field label="Name" name="name" required value={scope?.name ?? ''} />
        <Field label="Description" name="description" value={scope?.description ?? ''} />
      </Form>
    </Dialog>
  );
}
