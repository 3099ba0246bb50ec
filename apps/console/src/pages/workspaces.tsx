import { useLocation } from 'preact-iso/router';
import { call } from '../data/call.ts';
import { usePages } from '../data/hooks.ts';
import { useIsOfTeam, useMay, type Workspace } from '../data/session.ts';
import { Ask } from '../parts/dialog.tsx';
import { ConsoleFrame } from '../parts/frame.tsx';
import { Page } from '../parts/page.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';

const columns: readonly Column<Workspace>[] = [
  { title: 'Name', text: 'name', link: addressOf, isMain: true },
  { title: 'Id', code: 'id', isExtra: true },
  { title: 'Made', time: 'createdAt' },
];

/** Which workspace to look at. */
export function Workspaces() {
  const mayWrite = useMay()('workspace:write');
  const isOfTeam = useIsOfTeam();
  return (
    <ConsoleFrame>
      <Page title="Choose a workspace" action={isOfTeam && mayWrite && <NewWorkspace />}>
        <PagedTable
          label="Workspaces"
          columns={columns}
          pages={usePages('get /api/v1/workspace', { limit: 100 })}
          empty="No workspace yet. A workspace holds the keys, scopes and customers of one product or environment: make one to begin."
        />
      </Page>
    </ConsoleFrame>
  );
}

function NewWorkspace() {
  const { route } = useLocation();
  return (
    <Ask
      look="main"
      title="New workspace"
      submit="Create workspace"
      fields={[{ name: 'name', label: 'Name', required: true, maxLength: 128 }]}
      onSubmit={async (given) => route(addressOf((await call('post /api/v1/workspace', given)).workspace))}
    />
  );
}

function addressOf({ id }: { id: string }): string {
  return `/console/w/${encodeURIComponent(id)}/`;
}
