import { useCallback, useLayoutEffect, useState } from 'preact/hooks';
import { LocationProvider, Route, Router, useLocation } from 'preact-iso/router';
import { call, Problem, readSession, signIn, type Session } from './data/call.ts';
import { EndedContext, SessionContext, useSession, type Workspace } from './data/hooks.ts';
import { InWorkspace } from './workspace.tsx';
import { Ask } from './parts/dialog.tsx';
import { Form } from './parts/form.tsx';
import { ConsoleFrame, Outside, Page } from './parts/page.tsx';
import { List } from './parts/table.tsx';

/** The console: signing in, choosing a workspace, and its pages. */
export function App() {
  const [session, setSession] = useState<Session | Problem | 'none'>();
  const onEnded = useCallback(() => setSession('none'), []);
  useLayoutEffect(() => {
    readSession().then(
      (answer) => setSession(answer.session),
      (error: unknown) => {
        if (!(error instanceof Problem)) throw error;
        setSession(error.status === 401 ? 'none' : error);
      },
    );
  }, []);

  // The answer is here in a moment: to lay out and draw a page without content would only hold it up.
  if (session === undefined) return null;
  if (session instanceof Problem) return <Outside title="keytally" problem={session} />;
  if (session === 'none') return <SignIn onSigned={setSession} />;
  // The router decodes an address, and fails where that can't be done. No address of ours needs it.
  if (location.pathname.includes('%')) history.replaceState(null, '', '/console');
  return (
    <SessionContext.Provider value={session}>
      <EndedContext.Provider value={onEnded}>
        <LocationProvider scope="/console">
          <Router>
            <Route path="/console/w/:workspace/:page?/:item?" component={InWorkspace} />
            <Route default component={Workspaces} />
          </Router>
        </LocationProvider>
      </EndedContext.Provider>
    </SessionContext.Provider>
  );
}

function SignIn({ onSigned }: { onSigned(session: Session): void }) {
  const hint = 'It begins with kt_. On one machine, make token prints one.';
  return (
    <Outside title="keytally">
      <p>Sign in with an access token of your team. It is sent once; the browser keeps a session for 8 hours.</p>
      <Form
        submit="Sign in"
        fields={[{ name: 'token', label: 'Access token', as: 'password', required: true, autofocus: true, hint }]}
        onSubmit={async ({ token }) => onSigned((await signIn(token)).session)}
      />
    </Outside>
  );
}

function Workspaces() {
  const { isOfTeam } = useSession();
  const { route } = useLocation();
  const make = (
    <Ask
      does="New"
      one="workspace"
      needs={isOfTeam && 'workspace:write'}
      fields={[{ name: 'name', label: 'Name', required: true, maxLength: 128 }]}
      onSubmit={async (given) => route(addressOf((await call('post /api/v1/workspace', given)).workspace))}
    />
  );
  const named = (one: Workspace) => (
    <a href={addressOf(one)} title={one.name}>
      {one.name}
    </a>
  );
  return (
    <ConsoleFrame>
      <Page title="Choose a workspace" action={make}>
        <List
          label="Workspaces"
          of="get /api/v1/workspace"
          input={{ limit: 100 }}
          columns={[
            { title: 'Name', cell: named, isMain: true },
            { title: 'Id', code: 'id', isExtra: true },
            { title: 'Made', time: 'createdAt' },
          ]}
          empty="No workspace yet. A workspace holds the keys, scopes and customers of one product or environment: make one to begin."
        />
      </Page>
    </ConsoleFrame>
  );
}

function addressOf({ id }: Workspace): string {
  return `/console/w/${encodeURIComponent(id)}/`;
}
