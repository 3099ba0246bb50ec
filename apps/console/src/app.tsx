import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import { LocationProvider, Route, Router } from 'preact-iso';
import { Problem, readSession, type Session } from './data/call.ts';
import { EndedContext, SessionContext } from './data/session.ts';
import { InWorkspace } from './workspace.tsx';
import { SignIn } from './pages/sign-in.tsx';
import { Workspaces } from './pages/workspaces.tsx';
import { ProblemNote } from './parts/text.tsx';

/** The console: signing in, choosing a workspace, and its pages. */
export function App() {
  const [session, setSession] = useState<Session | null>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
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
  if (session === undefined) return <main class="narrow" aria-busy="true" />;
  if (!signed) return <SignIn onSigned={setSession} />;
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
