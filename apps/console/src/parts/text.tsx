import type { ComponentChildren } from 'preact';
import { useContext } from 'preact/hooks';
import type { Problem } from '../data/call.ts';
import { pathIn, WorkspaceContext, type Answered } from '../data/hooks.ts';
import { fromNow, localMoment } from '../data/time.ts';
import { fieldOf } from './plain-words.ts';

/** What stands for usage that was given no name. */
export const UNNAMED = 'without a name';

type LinkProps = { to: string | false | undefined; title?: string | undefined; children: ComponentChildren };

/** A link to a page, of the workspace where it does not begin with a slash. In the portal is none. */
export function PageLink({ to, title, children }: LinkProps) {
  const workspace = useContext(WorkspaceContext);
  const href = to && (to.startsWith('/') ? to : workspace && pathIn(workspace, to));
  if (!href) return <span title={title}>{children}</span>;
  return (
    <a href={href} title={title}>
      {children}
    </a>
  );
}

/** A name of the api as words: `USED_UP` as `Used up`. */
export const wordOf = (name: string) =>
  `${name.slice(0, 1).toUpperCase()}${name.slice(1).toLowerCase().replaceAll('_', ' ')}`;

/** Decimal text as people read it: whole digits in groups, every decimal kept. */
export function grouped(text: string): string {
  return text.replace(/\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ','));
}

/** An amount, with all its decimals. */
export function Amount({ of }: { of: string | number | undefined }) {
  return of === undefined ? null : <span class="amount">{grouped(String(of))}</span>;
}

/** A moment in the viewer's zone, or how long ago it was; all of it on hover. */
export function Time({ at, isAgo }: { at: string | number | undefined; isAgo?: boolean | undefined }) {
  if (at === undefined) return <None>never</None>;
  const date = new Date(at);
  const utc = date.toISOString();
  const [local, ago] = [localMoment(date.getTime()), fromNow(date.getTime())];
  return (
    <time dateTime={utc} title={`${isAgo ? local : ago}; ${utc.replace('T', ' ').replace('Z', ' UTC')}`}>
      {isAgo ? ago : local}
    </time>
  );
}

/** What was not done, and what tries it again. */
export type Failed = { problem?: Problem | undefined; onRetry?: (() => void) | undefined };
type Labelled = { name: string; label: string; told?: readonly string[] };

/** What was not done and why, in plain words; what the api said, and the request's id, for whoever looks it up. */
export function ProblemNote({ problem, onRetry, fields = [] }: Failed & { fields?: readonly Labelled[] }) {
  if (!problem) return null;
  const { message, details, requestId } = problem;
  const request = requestId && (
    <p class="muted">
      Request <code>{requestId}</code>
    </p>
  );
  const wrong = [...new Set(details.map(({ path }) => fieldOf(fields, path)?.label))];
  const where = wrong.length > 0 && wrong.every(Boolean) && <strong>{wrong.join(', ')}</strong>;
  return (
    <div class="problem" role="alert">
      <p>{where ? ['Not done: look at ', where, '.'] : message}</p>
      {details.length > 0 ? (
        <details>
          <summary>Details</summary>
          <p>{message}</p>
          {request}
        </details>
      ) : (
        request
      )}
      {onRetry && (
        <button type="button" class="outline small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What was read, and before that why it is not there. */
export function Loaded<Value>({ of, children }: { of: Answered<Value>; children(value: Value): ComponentChildren }) {
  const { value, problem, reload } = of;
  return (
    <>
      <ProblemNote problem={problem} onRetry={reload} />
      {value === undefined ? !problem && <p aria-busy="true">Loading…</p> : children(value)}
    </>
  );
}

/** A state: whether it is good, its word, and what is told of it on hover. */
export type Standing = readonly [kind: 'good' | 'low' | 'bad' | 'idle', word: string, more?: string];

/** A state as a word, with a colour for those who see it. */
export function State({ of: [kind, word, more] }: { of: Standing }) {
  return (
    <span class="state" style={{ color: `var(--${kind})` }} title={more ?? word}>
      <span class="dot" style={{ background: 'currentcolor', borderRadius: '50%' }} /> {word}
    </span>
  );
}

/** What stands where there is no value. */
export function None({ children = 'none' }: { children?: string }) {
  return <span class="muted">{children}</span>;
}

/** What a list without items says: what to do about it. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** What stands in the place of things that nobody has made yet. */
export function MakeOne({ what, page, why }: { what: string; page: string; why: string }) {
  return (
    <>
      There is no {what}. <PageLink to={page}>Make one</PageLink> {why}.
    </>
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

type LegendProps = { of: readonly { name: string; fill: string; amount?: string }[]; title?: string };

/** What the colours of a drawing stand for. */
export function Legend({ of, title }: LegendProps) {
  return (
    <figcaption class="legend">
      {title && <strong>{title}</strong>}
      {of.map(({ name, fill, amount }, i) => (
        <span key={`${i} ${name}`}>
          <span class="dot" style={{ background: fill }} /> {name} <Amount of={amount} />
        </span>
      ))}
    </figcaption>
  );
}
