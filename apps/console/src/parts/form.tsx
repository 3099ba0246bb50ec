import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Problem } from '../data/call.ts';
import { asProblem, endForm } from '../data/hooks.ts';
import { useEnded } from '../data/session.ts';
import { ProblemNote } from './text.tsx';

/** What a form's fields hold, by name; an empty one is ''. */
export type Values = (name: string) => string;

type FormProps = {
  submit: string;
  /** One of several things that one can do here, and not the first of them. */
  isMinor?: boolean;
  /** Its button stands beside the fields. */
  isRow?: boolean;
  /** Its button stands in a row of a table; `label` is its name for those who can't see the row. */
  isSmall?: boolean;
  label?: string;
  /** Whether it may be sent; default: yes. */
  isReady?: boolean;
  onSubmit(values: Values, form: FormData): Promise<unknown>;
  children: ComponentChildren;
};

/** A form that says that it works, and what the api said where it refused. */
export function Form({ submit, isMinor, isRow, isSmall, label, isReady = true, onSubmit, children }: FormProps) {
  const onEnded = useEnded();
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const send = async (event: { preventDefault(): void; currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    if (isBusy) return;
    const data = new FormData(event.currentTarget);
    setBusy(true);
    setProblem(undefined);
    try {
      await onSubmit((name) => ((data.get(name) as string | null) ?? '').trim(), data);
    } catch (error) {
      setProblem(asProblem(error, onEnded));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class={isRow ? 'row' : ''} onSubmit={send}>
      {children}
      <ProblemNote problem={problem} />
      <button
        type="submit"
        class={isSmall ? 'outline small' : isMinor ? 'outline' : ''}
        aria-label={label}
        aria-busy={isBusy}
        disabled={isBusy || !isReady}
      >
        {submit}
      </button>
    </form>
  );
}

type FieldProps = {
  label: string;
  name: string;
  hint?: string;
  type?: 'text' | 'password' | 'search' | 'number' | 'date' | 'datetime-local' | 'month';
  value?: string | number;
  placeholder?: string;
  required?: boolean;
  autofocus?: boolean;
  inputMode?: 'decimal';
  maxLength?: number;
  min?: string;
  max?: string;
  step?: string;
  onInput?(event: { currentTarget: HTMLInputElement }): void;
};

/** A field with its label and, below it, what it takes. */
export function Field({ label, hint, type = 'text', value, ...input }: FieldProps) {
  const id = useId();
  // Preact types an input by its kind, which is known only here. It sets a `value` again whenever the page is drawn, and what was
  // typed meanwhile is gone: only a field that tells what is typed has one.
  const given: object = { type, [input.onInput ? 'value' : 'defaultValue']: value, ...input };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input id={id} autocomplete="off" {...(hint && { 'aria-describedby': `${id}-hint` })} {...given} />
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  );
}

type ChoiceProps = {
  label: string;
  name: string;
  options: readonly (readonly [value: string, text: string])[];
  value?: string;
  hint?: string;
  /** Its label stands beside it. */
  isInline?: boolean;
  onChoice?(value: string): void;
};

export function Choice({ label, name, options, value, hint, isInline, onChoice }: ChoiceProps) {
  const id = useId();
  return (
    <div class={isInline ? 'field inline' : 'field'}>
      <label for={id}>{label}</label>
      <select
        id={id}
        name={name}
        {...(hint && { 'aria-describedby': `${id}-hint` })}
        onChange={(event) => onChoice?.(event.currentTarget.value)}
      >
        {options.map(([one, text]) => (
          <option key={one} value={one} selected={one === value}>
            {text}
          </option>
        ))}
      </select>
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  );
}

export function Check({ label, name, checked }: { label: string; name: string; checked?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" name={name} defaultChecked={checked} /> {label}
    </label>
  );
}

/** A dialog over the page: Escape closes it, and focus goes back to where it was. */
export function Dialog({ title, onClose, children }: { title: string; onClose(): void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    // Else the button that closes it has the focus, as the first that can.
    dialog.current?.querySelector<HTMLElement>('input, select')?.focus();
    // The browser gives it back itself where it closes the dialog, and whoever has gone on since is not called back.
    return () => {
      endForm();
      if (document.activeElement === document.body) before?.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose}>
      <article>
        <header>
          <button type="button" aria-label="Close" class="close" onClick={() => dialog.current?.close()} />
          <h2 id={id}>{title}</h2>
        </header>
        {children}
      </article>
    </dialog>
  );
}

/** A moment as a field for date and time holds it, in the viewer's zone. */
export function localTime(ms: number | undefined): string {
  if (ms === undefined) return '';
  const date = new Date(ms);
  return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The moment that such a field holds. */
export function momentOf(text: string): number | undefined {
  return text === '' ? undefined : new Date(text).getTime();
}
