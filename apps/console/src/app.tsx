import { LocationProvider, Route, Router, useLocation } from 'preact-iso/router';
import { askProvider, call, enter, readSession, signIn, type Problem } from './data/call.ts';
import { EndedContext, pathIn, SessionContext, useEntry, useRead, useSession } from './data/hooks.ts';
import { InWorkspace } from './workspace.tsx';
import { Ask } from './parts/dialog.tsx';
import { Form } from './parts/form.tsx';
import { ConsoleFrame, Outside } from './parts/page.tsx';
import { List } from './parts/table.tsx';

/** The console: signing in, choosing a workspace, and its pages. */
export function App() {
  const begin = useEntry(ENTRY, enter);
  const { value, problem, reload } = useRead(() => begin().then(readSession), '');
  if (problem && [401, 403].includes(problem.status)) return <SignIn onSigned={reload} problem={problem} />;
  // The answer is here in a moment: to lay out and draw a page without content would only hold it up.
  if (!value) return problem ? <Outside title="keytally" problem={problem} onRetry={reload} /> : null;
  // The router decodes an address, and fails where that can't be done. No address of ours needs it.
  if (location.pathname.includes('%')) history.replaceState(null, '', '/console');
  return (
    <SessionContext.Provider value={value.session}>
      <EndedContext.Provider value={reload}>
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

// A code that works once, or what the provider answered. See `enter`.
const ENTRY = /^(#once_|\?(.*&)?state=).*/;
// "token_missing" of the API: nobody has been signed in.
const NOBODY = 40101;

function SignIn({ onSigned, problem }: { onSigned(): void; problem: Problem }) {
  const { provider } = document.body.dataset;
  const hint = 'It begins with kt_. On one machine, make token prints one.';
  return (
    <Outside title="keytally" problem={problem.code === NOBODY ? undefined : problem}>
      {provider && (
        <Form submit={`Sign in at ${provider}`} onSubmit={async () => location.assign((await askProvider()).url)} />
      )}
      <p>Sign in with an access token of your team. It is sent once; the browser keeps a session for 8 hours.</p>
      <Form
        submit="Sign in"
        fields={[{ name: 'token', label: 'Access token', as: 'password', required: true, autofocus: true, hint }]}
        onSubmit={({ token }) => signIn(token).then(onSigned)}
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
      onSubmit={async (given) => route(pathIn((await call('post /api/v1/workspace', given)).workspace, ''))}
    />
  );
  return (
    <ConsoleFrame>
      <List
        page="Choose a workspace"
        action={make}
        label="Workspaces"
        of="get /api/v1/workspace"
        input={{ limit: 100 }}
        columns={[
          { title: 'Name', text: 'name', link: (one) => pathIn(one, '') },
          { title: 'Id', code: 'id' },
          { title: 'Created', time: 'createdAt' },
        ]}
        empty="No workspace yet. A workspace holds the keys, scopes and customers of one product or environment: make one to begin."
      />
    </ConsoleFrame>
  );
}
