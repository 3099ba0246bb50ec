import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Problem, signOut } from '../data/call.ts';
import { useSession } from '../data/session.ts';
import { ProblemNote } from './text.tsx';

type FrameProps = {
  /** What stands at the top. */
  head: ComponentChildren;
  /** What the button that ends the session says. */
  leave: string;
  onLeave(): Promise<unknown>;
  onEnded(): void;
  menu?: ComponentChildren;
  children: ComponentChildren;
};

/** What is around every page. A session that the server could not be told of has not ended, and the page says so. */
export function Frame({ head, leave, onLeave, onEnded, menu, children }: FrameProps) {
  const [problem, setProblem] = useState<Problem>();
  const end = async () => {
    try {
      await onLeave();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status !== 401) return setProblem(error);
    }
    return onEnded();
  };
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        {head}
        <button type="button" class="outline secondary" onClick={end}>
          {leave}
        </button>
      </header>
      <ProblemNote problem={problem} />
      {menu}
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

type ConsoleFrameProps = { workspaceName?: string | undefined; menu?: ComponentChildren; children: ComponentChildren };

/** The same around a page of the console, with who is signed in. */
export function ConsoleFrame({ workspaceName, ...page }: ConsoleFrameProps) {
  const { session, onEnded } = useSession();
  const head = (
    <>
      <a class="brand" href="/console">
        keytally
      </a>
      {workspaceName !== undefined && (
        <a class="workspace" href="/console" title="Choose another workspace">
          {workspaceName}
        </a>
      )}
      <span class="who" title={`Signed in with the token ${session.tokenName}`}>
        {session.tokenName}
      </span>
    </>
  );
  return <Frame head={head} leave="Sign out" onLeave={signOut} onEnded={onEnded} {...page} />;
}
