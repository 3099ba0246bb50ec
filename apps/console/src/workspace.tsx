import type { FunctionComponent } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso/router';
import type { Permission } from '../../../shared/contract/caller.ts';
import { useAnswer, useMay, useSession, useWorkspace, WorkspaceContext } from './data/hooks.ts';
import { Audit } from './pages/audit.tsx';
import { Customer } from './pages/customers/customer.tsx';
import { Customers } from './pages/customers/customers.tsx';
import { Key } from './pages/keys/key.tsx';
import { Keys } from './pages/keys/keys.tsx';
import { Overview } from './pages/overview.tsx';
import { Scopes } from './pages/keys/scopes.tsx';
import { Settings } from './pages/settings.tsx';
import { Tokens } from './pages/tokens.tsx';
import { UsagePage } from './pages/usage.tsx';
import { Webhook } from './pages/webhooks/webhook.tsx';
import { Webhooks } from './pages/webhooks/webhooks.tsx';
import { Why } from './pages/why.tsx';
import { ConsoleFrame, Page } from './parts/page.tsx';
import { ProblemNote } from './parts/text.tsx';

type PageData = {
  path: string;
  title: string;
  needs: Permission;
  isOfTeam?: true;
  page: FunctionComponent;
  /** The page of one of those that it lists. */
  item?: FunctionComponent<{ id: string }>;
};

const pages: readonly PageData[] = [
  { path: 'overview', title: 'Overview', needs: 'workspace:read', page: Overview },
  { path: 'keys', title: 'Keys', needs: 'key:read', page: Keys, item: Key },
  { path: 'customers', title: 'Customers', needs: 'billing:read', page: Customers, item: Customer },
  { path: 'usage', title: 'Usage', needs: 'usage:read', page: UsagePage },
  { path: 'why', title: 'Why refused?', needs: 'usage:read', page: Why },
  { path: 'scopes', title: 'Scopes', needs: 'workspace:read', page: Scopes },
  { path: 'webhooks', title: 'Webhooks', needs: 'webhook:read', page: Webhooks, item: Webhook },
  { path: 'tokens', title: 'Tokens', needs: 'token:write', page: Tokens },
  { path: 'audit-log', title: 'Audit log', needs: 'audit:read', isOfTeam: true, page: Audit },
  { path: 'settings', title: 'Settings', needs: 'workspace:read', page: Settings },
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
  // On a narrow screen the menu scrolls: the page that is shown stands in sight.
  const intoSight = (link: HTMLElement | null) => link?.scrollIntoView({ block: 'nearest', inline: 'center' });
  return (
    <nav class="menu" aria-label="Pages">
      {usePagesOf().map(({ path, title }) => (
        <a key={path} href={pathOf(path)} {...(path === at && { 'aria-current': 'page' as const, ref: intoSight })}>
          {title}
        </a>
      ))}
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
