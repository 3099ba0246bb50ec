import type { ComponentChildren } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { signOut } from '../data/call.ts';
import { EndedContext, useAsked, useSession, type Answered } from '../data/hooks.ts';
import { DialogContext } from './dialog.tsx';
import { Form } from './form.tsx';
import { Loaded, ProblemNote, type Failed } from './text.tsx';

type PageProps = { title: string; action?: ComponentChildren; children: ComponentChildren };

function useTitle(title: string): void {
  useEffect(() => void (document.title = title), [title]);
}

/** A page below its heading; the window's title is the heading too. A dialog that is open is gone with it. */
export function Page({ title, action, children }: PageProps) {
  const show = useContext(DialogContext);
  useTitle(`${title} · keytally`);
  useEffect(() => () => show(undefined), []);
  return (
    <>
      <header class="page">
        <h1>{title}</h1>
        {action && <div class="actions">{action}</div>}
      </header>
      {children}
    </>
  );
}

type SectionProps<Value> = { title: string; action?: ComponentChildren } & (
  { of?: undefined; children: ComponentChildren } | { of: Answered<Value>; children(value: Value): ComponentChildren }
);

/** A part of a page below its heading; with `of` of something that is read. */
export function Section<Value>({ title, action, ...shown }: SectionProps<Value>) {
  return (
    <section>
      <header class="page">
        <h2>{title}</h2>
        {action && <div class="actions">{action}</div>}
      </header>
      {shown.of ? <Loaded {...shown} /> : shown.children}
    </section>
  );
}

// On a narrow screen they scroll: the one that is shown stands in sight. Of one identity, or it scrolls as often as the page is drawn.
const intoSight = (link: HTMLElement | null) => link?.scrollIntoView({ block: 'nearest', inline: 'center' });

/** Parts of a page, of which the address says which one is shown; false is one that whoever looks may not see. */
export function Tabs({ of }: { of: Readonly<Record<string, false | (() => ComponentChildren)>> }) {
  const { path } = useLocation();
  const [{ tab = '' }] = useAsked();
  const titles = Object.keys(of).filter((title) => of[title]);
  const shown = titles.includes(tab) ? tab : titles[0]!;
  const current = { 'aria-current': 'true', ref: intoSight } as const;
  return (
    <>
      <nav class="menu tabs" aria-label="Parts of the page">
        {titles.map((title) => (
          <a key={title} href={`${path}?tab=${encodeURIComponent(title)}`} {...(title === shown && current)}>
            {title}
          </a>
        ))}
      </nav>
      {(of[shown] || undefined)?.()}
    </>
  );
}

/** What is shown without a session: why, or how to come by one. */
export function Outside({ title, children, ...told }: Failed & { title: string; children?: ComponentChildren }) {
  useTitle(title);
  return (
    <main class="narrow">
      <h1>{title}</h1>
      <ProblemNote {...told} />
      {children}
    </main>
  );
}

type Framed = { color?: string | undefined; menu?: ComponentChildren; children: ComponentChildren };
/** What stands at the top, below a line of a colour, who is signed in, and what the button says that ends the session. */
type FrameProps = Framed & { head: ComponentChildren; who?: string; leave: string; onLeave(): Promise<unknown> };

/** What is around every page, and a dialog over it. A session that the server could not be told of has not ended, and the page says so. */
export function Frame({ head, who = '', color, leave, onLeave, menu, children }: FrameProps) {
  const [dialog, setDialog] = useState<ComponentChildren>();
  return (
    <DialogContext.Provider value={setDialog}>
      <div class="frame">
        <a class="skip" href="#main">
          Skip to the page
        </a>
        <header class="top" style={color && { borderTop: `4px solid ${color}` }}>
          {head}
          <span class="who" title={who && `Signed in with the token ${who}`}>
            {who}
          </span>
          <Form submit={leave} look="minor" onSubmit={onLeave} />
        </header>
        {menu}
        <main id="main" tabIndex={-1}>
          {children}
        </main>
        {dialog}
      </div>
    </DialogContext.Provider>
  );
}

/** The same around a page of the console, with who is signed in. */
export function ConsoleFrame({ workspaceName, ...page }: Framed & { workspaceName?: string | undefined }) {
  const { session } = useSession();
  const onEnded = useContext(EndedContext);
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
    </>
  );
  const leave = () => signOut().then(onEnded);
  return <Frame head={head} who={session.tokenName} leave="Sign out" onLeave={leave} {...page} />;
}
