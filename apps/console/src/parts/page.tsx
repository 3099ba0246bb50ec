import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Read } from '../data/hooks.ts';
import { useWorkspace } from '../data/session.ts';
import { DialogContext } from './dialog.tsx';
import { PagedTable, type PagedProps } from './table.tsx';
import { ProblemNote } from './text.tsx';

/** The address of a page of the workspace. */
export function usePath(): (page: string) => string {
  const { id } = useWorkspace();
  return (page) => `/console/w/${encodeURIComponent(id)}/${page}`;
}

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

type ListProps<Item> = Omit<PagedProps<Item>, 'label'> & { title: string; action?: ComponentChildren };

/** A part of a page that is a list. */
export function ListSection<Item>({ title, action, ...list }: ListProps<Item>) {
  return (
    <Section title={title} action={action}>
      <PagedTable label={title} {...list} />
    </Section>
  );
}
