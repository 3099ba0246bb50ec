import type { ComponentChildren } from 'preact';
import type { Problem } from '../data/call.ts';
import { ProblemNote } from './text.tsx';

type PanelProps = {
  title: string;
  problem: Problem | undefined;
  /** Whether what it shows was read. */
  isThere: boolean;
  children: ComponentChildren;
};

/** One of several short answers beside each other. */
export function Panel({ title, problem, isThere, children }: PanelProps) {
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      <ProblemNote problem={problem} />
      {!problem && !isThere && <p aria-busy="true">Loading…</p>}
      {children}
    </section>
  );
}
