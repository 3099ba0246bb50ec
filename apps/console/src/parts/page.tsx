import type { ComponentChildren } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { Problem, signOut } from '../data/call.ts';
import { EndedContext, useSession, type Read } from '../data/hooks.ts';
import { DialogContext } from './dialog.tsx';
import { ProblemNote } from './text.tsx';

type PageProps = { title: string; action?: ComponentChildren; children: ComponentChildren };

/** A page below its heading, with the dialog that is open; the window's title is the heading too. */
export function Page({ title, action, children }: PageProps) {
  const [dialog, setDialog] = useState<ComponentChildren>();
  useEffect(() => void (document.title = `${title} · keytally`), [title]);
  return (
    <DialogContext.Provider value={setDialog}>
      <header class="page">
        <h1>{title}</h1>
        {action && <div class="actions">{action}</div>}
      </header>
      {children}
      {dialog}
    </DialogContext.Provider>
  );
}

type PageOfProps<Value> = { of: Read<Value>; name: string; show(value: Value): PageProps };

/** The page of something that is read; of what could not be read it has the name. */
export function PageOf<Value>({ of: { value, problem, reload }, name, show }: PageOfProps<Value>) {
  if (value === undefined && !problem) return <p aria-busy="true">Loading…</p>;
  const { title, action, children } = value === undefined ? { title: name, children: null } : show(value);
  return (
    <Page title={title} action={action}>
      <ProblemNote problem={problem} onRetry={reload} />
      {children}
    </Page>
  );
}

/** A part of a page below its heading. */
export function Section({ title, action, children }: PageProps) {
  return (
    <section>
      <header class="page">
        <h2>{title}</h2>
        {action}
      </header>
      {children}
    </section>
  );
}

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
  const { session } = useSession();
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
  return <Frame head={head} leave="Sign out" onLeave={signOut} onEnded={useContext(EndedContext)} {...page} />;
}
