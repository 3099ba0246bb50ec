import type { ComponentChildren } from 'preact';
import { signOut } from '../data/call.ts';
import { useLeave, useSession } from '../data/session.ts';
import { ProblemNote } from './text.tsx';

/** The head of every page, with who is signed in. */
export function Frame({
  workspaceName,
  children,
}: {
  workspaceName?: string | undefined;
  children: ComponentChildren;
}) {
  const { session, onEnded } = useSession();
  const { leave, problem } = useLeave(signOut, onEnded);
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
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
        <button type="button" class="outline secondary" onClick={leave}>
          Sign out
        </button>
      </header>
      <ProblemNote problem={problem} />
      {children}
    </div>
  );
}
