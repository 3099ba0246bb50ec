import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Route, Router, useLocation, useRoute } from 'preact-iso/router';
import type { Permission } from '../../../shared/contract/caller.ts';
import { call } from './data/call.ts';
import { useRead } from './data/hooks.ts';
import { useIsOfTeam, useMay, WorkspaceContext, type Workspace } from './data/session.ts';
import { Audit } from './pages/audit.tsx';
import { Customer } from './pages/customers/customer.tsx';
import { Customers } from './pages/customers/customers.tsx';
import { Key } from './pages/keys/key.tsx';
import { Keys } from './pages/keys/keys.tsx';
import { Overview } from './pages/overview/overview.tsx';
import { Scopes } from './pages/keys/scopes.tsx';
import { Settings } from './pages/settings.tsx';
import { Tokens } from './pages/tokens.tsx';
import { UsagePage } from './pages/usage.tsx';
import { Webhook } from './pages/webhooks/webhook.tsx';
import { Webhooks } from './pages/webhooks/webhooks.tsx';
import { Why } from './pages/why.tsx';
import { Frame } from './parts/frame.tsx';
import { Page, usePath } from './parts/page.tsx';
import { ProblemNote } from './parts/text.tsx';

const pages: readonly (readonly [path: string, title: string, needs: Permission, of?: 'team'])[] = [
  ['overview', 'Overview', 'workspace:read'],
  ['keys', 'Keys', 'key:read'],
  ['customers', 'Customers', 'billing:read'],
  ['usage', 'Usage', 'usage:read'],
  ['why', 'Why refused?', 'usage:read'],
  ['scopes', 'Scopes', 'workspace:read'],
  ['webhooks', 'Webhooks', 'webhook:read'],
  ['tokens', 'Tokens', 'token:write'],
  ['audit-log', 'Audit log', 'audit:read', 'team'],
  ['settings', 'Settings', 'workspace:read'],
];

function usePagesOf() {
  const may = useMay();
  const isOfTeam = useIsOfTeam();
  return pages.filter(([, , needs, of]) => may(needs) && (of !== 'team' || isOfTeam));
}

/** The pages of the workspace that the address names. */
export function InWorkspace() {
  const { params } = useRoute();
  const id = params['workspace'] ?? '';
  const { value, problem } = useRead((signal) => call('get /api/v1/workspace/{id}', { id }, signal), [id]);
  const [changed, setChanged] = useState<Workspace>();
  const workspace = changed?.id === id ? changed : value?.workspace;
  return (
    <Frame workspaceName={workspace?.name}>
      {problem && (
        <>
          <ProblemNote problem={problem} />
          <a href="/console">Choose another workspace</a>
        </>
      )}
      {workspace?.id === id && (
        <WorkspaceContext.Provider value={{ workspace, onChanged: setChanged }}>
          <Menu />
          <main id="main" tabIndex={-1}>
            <Router>
              <Route path="/overview" component={Overview} />
              <Route path="/keys" component={Keys} />
              <Route path="/keys/:key" component={Key} />
              <Route path="/customers" component={Customers} />
              <Route path="/customers/:billing" component={Customer} />
              <Route path="/usage" component={UsagePage} />
              <Route path="/why" component={Why} />
              <Route path="/scopes" component={Scopes} />
              <Route path="/webhooks" component={Webhooks} />
              <Route path="/webhooks/:webhook" component={Webhook} />
              <Route path="/tokens" component={Tokens} />
              <Route path="/audit-log" component={Audit} />
              <Route path="/settings" component={Settings} />
              <Route default component={Nowhere} />
            </Router>
          </main>
        </WorkspaceContext.Provider>
      )}
    </Frame>
  );
}

function Menu() {
  const pathOf = usePath();
  const { path } = useLocation();
  const list = useRef<HTMLUListElement>(null);
  // On a narrow screen the menu scrolls: the page that is shown stands in sight.
  useEffect(() => {
    const showIt = () => {
      const shown = list.current!.querySelector<HTMLElement>('[aria-current]');
      if (shown) list.current!.scrollLeft = shown.offsetLeft - (list.current!.clientWidth - shown.offsetWidth) / 2;
    };
    showIt();
    addEventListener('resize', showIt);
    return () => removeEventListener('resize', showIt);
  }, [path]);
  return (
    <nav class="menu" aria-label="Pages">
      <ul ref={list}>
        {usePagesOf().map(([page, title]) => (
          <li key={page}>
            <a
              href={pathOf(page)}
              {...(`${path}/`.startsWith(`${pathOf(page)}/`) && { 'aria-current': 'page' as const })}
            >
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Nowhere() {
  const { route, path } = useLocation();
  const pathOf = usePath();
  const first = usePagesOf()[0]?.[0];
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
