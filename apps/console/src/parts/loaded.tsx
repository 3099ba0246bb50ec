import type { ComponentChildren } from 'preact';
import type { Read } from '../data/hooks.ts';
import { ProblemNote } from './text.tsx';

/** Something that is read, without what reads it again. */
export type Reading<Value> = Pick<Read<Value>, 'value' | 'problem'>;
type LoadedProps<Value> = {
  of: Reading<Value>;
  children(value: Value): ComponentChildren;
};

/** What was read, and before that why it is not there. */
export function Loaded<Value>({ of: { value, problem }, children }: LoadedProps<Value>) {
  return (
    <>
      <ProblemNote problem={problem} />
      {value === undefined ? !problem && <p aria-busy="true">Loading…</p> : children(value)}
    </>
  );
}

/** One of several short answers beside each other. */
export function Panel<Value>({ title, ...loaded }: LoadedProps<Value> & { title: string }) {
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      <Loaded {...loaded} />
    </section>
  );
}
