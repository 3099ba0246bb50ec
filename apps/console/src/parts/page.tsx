import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useWorkspace } from '../data/session.ts';

/** The address of a page of the workspace. */
export function usePath(): (page: string) => string {
  const { id } = useWorkspace();
  return (page) => `/console/w/${encodeURIComponent(id)}/${page}`;
}

/** A page below its heading; the window's title is the heading too. */
export function Page({
  title,
  action,
  children,
}: {
  title: string;
  action?: ComponentChildren;
  children: ComponentChildren;
}) {
  useEffect(() => void (document.title = `${title} · keytally`), [title]);
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
