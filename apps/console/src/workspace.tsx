import type { ComponentChild } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import { Route, Router, useLocation, useRoute } from 'preact-iso/router';
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

type PageData = { path: string; title: string; needs: Permission; isOfTeam?: true; page(): ComponentChild };

const pages: readonly PageData[] = [
  { path: 'overview', title: 'Overview', needs: 'workspace:read', page: Overview },
  { path: 'keys', title: 'Keys', needs: 'key:read', page: Keys },
  { path: 'customers', title: 'Customers', needs: 'billing:read', page: Customers },
  { path: 'usage', title: 'Usage', needs: 'usage:read', page: UsagePage },
  { path: 'why', title: 'Why refused?', needs: 'usage:read', page: Why },
  { path: 'scopes', title: 'Scopes', needs: 'workspace:read', page: Scopes },
  { path: 'webhooks', title: 'Webhooks', needs: 'webhook:read', page: Webhooks },
  { path: 'tokens', title: 'Tokens', needs: 'token:write', page: Tokens },
  { path: 'audit-log', title: 'Audit log', needs: 'audit:read', isOfTeam: true, page: Audit },
  { path: 'settings', title: 'Settings', needs: 'workspace:read', page: Settings },
];

function usePagesOf() {
  const may = useMay();
  const { isOfTeam } = useSession();
  return pages.filter((one) => may(one.needs) && (!one.isOfTeam || isOfTeam));
}

/** The pages of the workspace that the address names. */
export function InWorkspace() {
  const { params } = useRoute();
  const id = params['workspace'] ?? '';
  const { value: { workspace } = {}, problem } = useAnswer('get /api/v1/workspace/{id}', { id });
  if (workspace?.id !== id) {
    return (
      <ConsoleFrame workspaceName={workspace?.name}>
        <ProblemNote problem={problem} />
        {problem && <a href="/console">Choose another workspace</a>}
      </ConsoleFrame>
    );
  }
  return (
    <WorkspaceContext.Provider value={workspace}>
      <ConsoleFrame workspaceName={workspace.name} menu={<Menu />}>
        <ProblemNote problem={problem} />
        <Router>
          {pages.map(({ path, page }) => (
            <Route key={path} path={`/${path}`} component={page} />
          ))}
          <Route path="/keys/:key" component={Key} />
          <Route path="/customers/:billing" component={Customer} />
          <Route path="/webhooks/:webhook" component={Webhook} />
          <Route default component={Nowhere} />
        </Router>
      </ConsoleFrame>
    </WorkspaceContext.Provider>
  );
}

function Menu() {
  const { pathOf } = useWorkspace();
  const { path } = useLocation();
  // On a narrow screen the menu scrolls: the page that is shown stands in sight.
  const intoSight = (link: HTMLElement | null) => link?.scrollIntoView({ block: 'nearest', inline: 'center' });
  return (
    <nav class="menu" aria-label="Pages">
      <ul>
        {usePagesOf().map((one) => {
          const href = pathOf(one.path);
          const isShown = `${path}/`.startsWith(`${href}/`);
          return (
            <li key={one.path}>
              <a href={href} {...(isShown && { 'aria-current': 'page' as const, ref: intoSight })}>
                {one.title}
              </a>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

function Nowhere() {
  const { route, path } = useLocation();
  const { pathOf } = useWorkspace();
  const first = usePagesOf()[0]?.path;
  const isStart = /^\/console\/w\/[^/]+\/?$/.test(path);
  useLayoutEffect(() => {
    if (isStart && first) route(pathOf(first), true);
  }, [isStart, first]);
  if (isStart && first) return null;
  return (
    <Page title="Nothing here">
      <p>The address leads nowhere, or the token may see no page of it.</p>
    </Page>
  );
}
