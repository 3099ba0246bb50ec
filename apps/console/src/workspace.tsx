import type { FunctionComponent } from 'preact';
import { useContext, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso/router';
import type { Permission } from '../../../shared/contract/caller.ts';
import { useAnswer, useMay, useSession, useWorkspace, WorkspaceContext } from './data/hooks.ts';
import { Audit } from './pages/audit.tsx';
import { CallsPage } from './pages/calls.tsx';
import { Customer } from './pages/customers/customer.tsx';
import { Customers } from './pages/customers/customers.tsx';
import { Key } from './pages/keys/key.tsx';
import { Keys } from './pages/keys/keys.tsx';
import { Plans } from './pages/customers/plans.tsx';
import { Overview } from './pages/overview.tsx';
import { Search } from './pages/search.tsx';
import { Meter, Meters } from './pages/meters.tsx';
import { Scopes } from './pages/keys/scopes.tsx';
import { Settings } from './pages/settings.tsx';
import { Tokens } from './pages/tokens.tsx';
import { UsagePage } from './pages/usage.tsx';
import { Webhook } from './pages/webhooks/webhook.tsx';
import { Webhooks } from './pages/webhooks/webhooks.tsx';
import { DialogContext } from './parts/dialog.tsx';
import { ConsoleFrame, Page } from './parts/page.tsx';
import { ProblemNote } from './parts/text.tsx';

/** A page, what it stands with in the menu, and the page of one of those that it lists. */
type PageData = {
  group: 'Now' | 'Customers' | 'Use' | 'Team';
  path: string;
  title: string;
  needs: Permission;
  isOfTeam?: true;
  page: FunctionComponent;
  item?: FunctionComponent<{ id: string }>;
};

const pages: readonly PageData[] = [
  { group: 'Now', path: 'overview', title: 'Overview', needs: 'workspace:read', page: Overview },
  { group: 'Customers', path: 'customers', title: 'Customers', needs: 'billing:read', page: Customers, item: Customer },
  { group: 'Customers', path: 'keys', title: 'Keys', needs: 'key:read', page: Keys, item: Key },
  { group: 'Customers', path: 'plans', title: 'Plans', needs: 'billing:read', page: Plans },
  { group: 'Customers', path: 'scopes', title: 'Scopes', needs: 'workspace:read', page: Scopes },
  { group: 'Use', path: 'usage', title: 'Usage', needs: 'usage:read', page: UsagePage },
  { group: 'Use', path: 'calls', title: 'Calls', needs: 'usage:read', page: CallsPage },
  { group: 'Use', path: 'meters', title: 'Meters', needs: 'metering:read', page: Meters, item: Meter },
  { group: 'Team', path: 'webhooks', title: 'Webhooks', needs: 'webhook:read', page: Webhooks, item: Webhook },
  { group: 'Team', path: 'tokens', title: 'Tokens', needs: 'token:write', page: Tokens },
  { group: 'Team', path: 'audit-log', title: 'Audit log', needs: 'audit:read', isOfTeam: true, page: Audit },
  { group: 'Team', path: 'settings', title: 'Settings', needs: 'workspace:read', page: Settings },
];

/** The page of the workspace that the address names. */
export function InWorkspace() {
  const { workspace: id = '', page: path = '', item } = useRoute().params;
  const { value: { workspace } = {}, problem } = useAnswer('get /api/v1/workspace/{id}', { id });
  if (workspace?.id !== id) {
    return (
      <ConsoleFrame workspaceName={workspace?.name}>
        <ProblemNote problem={problem} />
        {problem && <a href="/console">Choose another workspace</a>}
      </ConsoleFrame>
    );
  }
  const shown = pages.find((one) => one.path === path);
  const Shown = item === undefined ? (shown?.page ?? Nowhere) : (shown?.item ?? Nowhere);
  return (
    <WorkspaceContext.Provider value={workspace}>
      <ConsoleFrame workspaceName={workspace.name} menu={<Menu at={path} />}>
        <ProblemNote problem={problem} />
        <Shown key={item} id={item ?? ''} />
      </ConsoleFrame>
    </WorkspaceContext.Provider>
  );
}

function usePagesOf() {
  const may = useMay();
  const { isOfTeam } = useSession();
  return pages.filter((one) => may(one.needs) && (!one.isOfTeam || isOfTeam));
}

function Menu({ at }: { at: string }) {
  const { pathOf } = useWorkspace();
  const [isOpen, setOpen] = useState(false);
  const show = useContext(DialogContext);
  const shown = usePagesOf();
  const search = () => show(<Search pages={shown} />);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      // Over another dialog it would hide what that holds.
      if (event.key !== 'k' || !(event.ctrlKey || event.metaKey) || document.querySelector('dialog')) return;
      event.preventDefault();
      search();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  });
  // Where the screen is narrow the menu is closed, and closes once a page was chosen.
  useEffect(() => setOpen(false), [at]);
  return (
    <nav class="menu pages" aria-label="Pages">
      <button type="button" class="outline small narrow" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {shown.find(({ path }) => path === at)?.title ?? 'Menu'} ▾
      </button>
      <div class={isOpen ? 'groups' : 'groups closed'}>
        {[...Map.groupBy(shown, ({ group }) => group)].map(([group, ofGroup]) => (
          <div key={group} role="group" aria-label={group}>
            {ofGroup.map(({ path, title }) => (
              <a key={path} href={pathOf(path)} aria-current={path === at ? 'page' : undefined}>
                {title}
              </a>
            ))}
          </div>
        ))}
      </div>
      <button type="button" class="outline small" aria-haspopup="dialog" title="Ctrl K" onClick={search}>
        Search
      </button>
    </nav>
  );
}

function Nowhere() {
  const { route } = useLocation();
  const { pathOf } = useWorkspace();
  const isStart = !useRoute().params['page'];
  const first = isStart && usePagesOf()[0]?.path;
  useLayoutEffect(() => {
    if (first) route(pathOf(first), true);
  }, [first]);
  if (first) return null;
  return (
    <Page title="Nothing here">
      <p>The address leads nowhere, or the token may see no page of it.</p>
    </Page>
  );
}
