import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { grouped } from '../data/amounts.ts';
import type { Problem } from '../data/call.ts';
import type { Read } from '../data/hooks.ts';
import { localMoment } from '../data/time.ts';

/** What stands for usage that was given no name. */
export const UNNAMED = 'without a name';

/** An amount, with all its decimals. */
export function Amount({ of }: { of: string | number | undefined }) {
  return of === undefined ? null : <span class="amount">{grouped(String(of))}</span>;
}

/** A moment in the viewer's zone; UTC on hover. */
export function Time({ at }: { at: string | number | undefined }) {
  if (at === undefined) return <None>never</None>;
  const date = new Date(at);
  const utc = date.toISOString();
  return (
    <time dateTime={utc} title={utc.replace('T', ' ').replace('Z', ' UTC')}>
      {localMoment(date)}
    </time>
  );
}

/** What the api refused or could not do, with the request's id for whoever looks it up. */
export function ProblemNote({ problem, onRetry }: { problem: Problem | undefined; onRetry?(): void }) {
  if (!problem) return null;
  return (
    <div class="problem" role="alert">
      <p>{problem.message}</p>
      {problem.details.length > 0 && (
        <ul>
          {problem.details.map(({ path, message }) => (
            <li key={path}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {problem.requestId && (
        <p class="muted">
          Request <code>{problem.requestId}</code>
        </p>
      )}
      {onRetry && (
        <button type="button" class="outline small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

type LoadedProps<Value> = {
  of: Pick<Read<Value>, 'value' | 'problem'>;
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

/** A state as a word, with a colour for those who see it. */
export function State({ kind, children }: { kind: 'good' | 'bad' | 'idle'; children: ComponentChildren }) {
  return <span class={`state ${kind}`}>{children}</span>;
}

/** What stands where there is no value. */
export function None({ children = 'none' }: { children?: string }) {
  return <span class="muted">{children}</span>;
}

/** What a list without items says: what to do about it. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** A secret that is shown once, with a button that copies it. */
export function Secret({ label, text }: { label: string; text: string }) {
  const [state, setState] = useState('');
  const field = useRef<HTMLInputElement>(null);
  // Where the button was that made it, so that a screen reader tells of it.
  useEffect(() => field.current?.focus(), []);
  const copy = async () => {
    try {
      // Over plain HTTP browsers have no clipboard, but for localhost.
      await navigator.clipboard.writeText(text);
      setState('Copied');
    } catch {
      field.current?.focus();
      field.current?.select();
      setState('The browser does not allow it: it is selected, copy it by hand');
    }
  };
  return (
    <div class="secret">
      <p>Store it now: it is shown this once.</p>
      <div role="group">
        <input ref={field} readOnly aria-label={label} value={text} onFocus={(event) => event.currentTarget.select()} />
        <button type="button" onClick={copy}>
          Copy
        </button>
      </div>
      <p role="status">{state}</p>
    </div>
  );
}

/** Names and values, one below the other; one without a value is left out. */
export function Facts({ of }: { of: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== undefined && value !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
