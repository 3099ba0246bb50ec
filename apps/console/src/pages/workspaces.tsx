import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from '../data/call.ts';
import { usePages } from '../data/hooks.ts';
import { useMay, type Workspace } from '../data/session.ts';
import { Dialog, Field, Form } from '../parts/form.tsx';
import { Frame } from '../parts/frame.tsx';
import { Page } from '../parts/page.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { ProblemNote, Time } from '../parts/text.tsx';

const columns: readonly Column<Workspace>[] = [
  { title: 'Name', cell: ({ id, name }) => <a href={addressOf(id)}>{name}</a>, isMain: true },
  { title: 'Id', cell: ({ id }) => <code>{id}</code>, isExtra: true },
  { title: 'Made', cell: ({ createdAt }) => <Time at={createdAt} /> },
];

/** Which workspace to look at. */
export function Workspaces() {
  const may = useMay();
  const { route } = useLocation();
  const [isMaking, setMaking] = useState(false);
  const { items, isWhole, problem, more } = usePages(async (cursor, signal) => {
    const page = await call('get /api/v1/workspace', { limit: 100, ...(cursor && { cursor }) }, signal);
    return { items: page.workspaces, nextCursor: page.nextCursor };
  }, []);
  const create = async (name: string) => {
    const { workspace } = await call('post /api/v1/workspace', { name });
    route(addressOf(workspace.id));
  };
  return (
    <Frame>
      <main id="main">
        <Page
          title="Choose a workspace"
          action={
            may('workspace:write') && (
              <button type="button" onClick={() => setMaking(true)}>
                New workspace
              </button>
            )
          }
        >
          <ProblemNote problem={problem} />
          {!problem && (
            <Table
              label="Workspaces"
              columns={columns}
              items={items}
              keyOf={({ id }) => id}
              isWhole={isWhole}
              more={more}
              empty="No workspace yet. A workspace holds the keys, scopes and customers of one product or environment: make one to begin."
            />
          )}
          {isMaking && (
            <Dialog title="New workspace" onClose={() => setMaking(false)}>
              <Form submit="Create workspace" onSubmit={(value) => create(value('name'))}>
                <Field label="Name" name="name" required maxLength={128} />
              </Form>
            </Dialog>
          )}
        </Page>
      </main>
    </Frame>
  );
}

function addressOf(id: string): string {
  return `/console/w/${encodeURIComponent(id)}/`;
}
