import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from '../data/call.ts';
import { usePages } from '../data/hooks.ts';
import { useIsOfTeam, useMay, type Workspace } from '../data/session.ts';
import { Dialog, Field, Form } from '../parts/form.tsx';
import { Frame } from '../parts/frame.tsx';
import { Page } from '../parts/page.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';
import { Time } from '../parts/text.tsx';

const columns: readonly Column<Workspace>[] = [
  { title: 'Name', cell: ({ id, name }) => <a href={addressOf(id)}>{name}</a>, isMain: true },
  { title: 'Id', cell: ({ id }) => <code>{id}</code>, isExtra: true },
  { title: 'Made', cell: ({ createdAt }) => <Time at={createdAt} /> },
];

/** Which workspace to look at. */
export function Workspaces() {
  const may = useMay();
  const isOfTeam = useIsOfTeam();
  const { route } = useLocation();
  const [isMaking, setMaking] = useState(false);
  const pages = usePages(async (cursor, signal) => {
    const page = await call('get /api/v1/workspace', { limit: 100, ...(cursor && { cursor }) }, signal);
    return { items: page.workspaces, nextCursor: page.nextCursor };
  }, []);
  const create = async (name: string) => {
    const { workspace } = await call('post /api/v1/workspace', { name });
    route(addressOf(workspace.id));
  };
  return (
    <Frame>
      <main id="main" tabIndex={-1}>
        <Page
          title="Choose a workspace"
          action={
            isOfTeam &&
            may('workspace:write') && (
              <button type="button" onClick={() => setMaking(true)}>
                New workspace
              </button>
            )
          }
        >
          <PagedTable
            label="Workspaces"
            columns={columns}
            pages={pages}
            keyOf={({ id }) => id}
            empty="No workspace yet. A workspace holds the keys, scopes and customers of one product or environment: make one to begin."
          />
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
