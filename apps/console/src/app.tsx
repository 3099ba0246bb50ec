import { useCallback, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { LocationProvider, Route, Router } from 'preact-iso/router';
import { Problem, readSession, signIn, type Session } from './data/call.ts';
import { EndedContext, SessionContext } from './data/hooks.ts';
import { InWorkspace } from './workspace.tsx';
import { Workspaces } from './pages/workspaces.tsx';
import { Form } from './parts/form.tsx';
import { ProblemNote } from './parts/text.tsx';

/** The console: signing in, choosing a workspace, and its pages. */
export function App() {
  const [session, setSession] = useState<Session | null>();
  const [problem, setProblem] = useState<Problem>();
  useLayoutEffect(() => {
    readSession().then(setSession, (error: unknown) => {
      if (error instanceof Problem && error.status === 401) setSession(null);
      else if (error instanceof Problem) setProblem(error);
      else throw error;
    });
  }, []);
  const onEnded = useCallback(() => setSession(null), []);

  if (problem) {
    return (
      <main class="narrow">
        <h1>keytally</h1>
        <ProblemNote problem={problem} />
      </main>
    );
  }
  // The answer is here in a moment: to lay out and draw a page without content would only hold it up.
  if (session === undefined) return null;
  if (!session) return <SignIn onSigned={setSession} />;
  // The router decodes an address, and fails where that can't be done. No address of ours needs it.
  if (location.pathname.includes('%')) history.replaceState(null, '', '/console');
  return (
    <SessionContext.Provider value={session}>
      <EndedContext.Provider value={onEnded}>
        <LocationProvider scope="/console">
          <Router>
            <Route path="/console" component={Workspaces} />
            <Route path="/console/w/:workspace" component={InWorkspace} />
            <Route path="/console/w/:workspace/*" component={InWorkspace} />
            <Route default component={Workspaces} />
          </Router>
        </LocationProvider>
      </EndedContext.Provider>
    </SessionContext.Provider>
  );
}

function SignIn({ onSigned }: { onSigned(session: Session): void }) {
  const hint = 'It begins with kt_. On one machine, make token prints one.';
  useEffect(() => void (document.title = 'Sign in · keytally'), []);
  return (
    <main class="narrow">
      <h1>keytally</h1>
      <p>Sign in with an access token of your team. It is sent once; the browser keeps a session for 8 hours.</p>
      <Form
        submit="Sign in"
        fields={[{ name: 'token', label: 'Access token', as: 'password', required: true, autofocus: true, hint }]}
        onSubmit={async ({ token }) => onSigned(await signIn(token))}
      />
    </main>
  );
}
