import { useCallback, useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { LocationProvider, Route, Router } from 'preact-iso/router';
import { Problem, readSession, type Session } from './data/call.ts';
import { EndedContext, SessionContext } from './data/session.ts';
import { InWorkspace } from './workspace.tsx';
import { SignIn } from './pages/sign-in.tsx';
import { Workspaces } from './pages/workspaces.tsx';
import { ConsoleFrame } from './parts/frame.tsx';
import { Page } from './parts/page.tsx';
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
  const signed = useMemo(() => session && { session, onEnded }, [session, onEnded]);

  if (problem) {
    return (
      <main class="narrow">
        <h1>keytally</h1>
        <ProblemNote problem={problem} />
      </main>
    );
  }
  // The answer is on its way since before this code was here: to lay out and draw a page without content would only hold it up.
  if (session === undefined) return null;
  if (!signed) return <SignIn onSigned={setSession} />;
  // The router decodes an address, and fails where that can't be done. No address of ours needs it.
  if (location.pathname.includes('%')) {
    return (
      <SessionContext.Provider value={signed}>
        <ConsoleFrame>
          <Page title="Nothing here">
            <a href="/console">Choose a workspace</a>
          </Page>
        </ConsoleFrame>
      </SessionContext.Provider>
    );
  }
  return (
    <SessionContext.Provider value={signed}>
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
