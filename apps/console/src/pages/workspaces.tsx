import { useLocation } from 'preact-iso/router';
import { call } from '../data/call.ts';
import { useSession } from '../data/hooks.ts';
import { Ask } from '../parts/dialog.tsx';
import { ConsoleFrame, Page } from '../parts/page.tsx';
import { List } from '../parts/table.tsx';

/** Which workspace to look at. */
export function Workspaces() {
  const { isOfTeam } = useSession();
  const { route } = useLocation();
  const make = (
    <Ask
      look="main"
      title="New workspace"
      submit="Create workspace"
      needs={isOfTeam && 'workspace:write'}
      fields={[{ name: 'name', label: 'Name', required: true, maxLength: 128 }]}
      onSubmit={async (given) => route(addressOf((await call('post /api/v1/workspace', given)).workspace))}
    />
  );
  return (
    <ConsoleFrame>
      <Page title="Choose a workspace" action={make}>
        <List
          label="Workspaces"
          of="get /api/v1/workspace"
          input={{ limit: 100 }}
          columns={[
            { title: 'Name', text: 'name', link: addressOf, isMain: true },
            { title: 'Id', code: 'id', isExtra: true },
            { title: 'Made', time: 'createdAt' },
          ]}
          empty="No workspace yet. A workspace holds the keys, scopes and customers of one product or environment: make one to begin."
        />
      </Page>
    </ConsoleFrame>
  );
}

function addressOf({ id }: { id: string }): string {
  return `/console/w/${encodeURIComponent(id)}/`;
}
