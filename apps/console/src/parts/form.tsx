import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { download, type Problem } from '../data/call.ts';
import { useMay, useProblem, type Needs } from '../data/hooks.ts';
import { localText } from '../data/time.ts';
import { ProblemNote } from './text.tsx';

/** A value, which is its own text if it has no other. */
type Option = string | readonly [value: string, text: string];
type Chosen<O> = O extends readonly [infer Value, string] ? Value : O;
/** A field of a form: what it is called, what it takes, and as what it is given on. */
export type FieldData = {
  name: string;
  label: string;
  /** What it takes, below it. */
  hint?: string | undefined;
  /** Credits are decimal text, a moment is in Unix milliseconds, ticks are those of `options` that were chosen. */
  as?: 'text' | 'credits' | 'number' | 'moment' | 'date' | 'month' | 'search' | 'password' | 'check' | 'ticks';
  /** One of these. */
  options?: readonly Option[];
  value?: string | number | boolean | readonly string[] | undefined;
  /** Where it is empty it is given on as null, not left out. */
  clears?: true;
  required?: true;
  placeholder?: string;
  autofocus?: true;
  maxLength?: number;
  min?: string;
  max?: string;
  step?: string;
};

type ValueOf<F extends FieldData> = F extends { as: 'check' }
  ? boolean
  : F extends { as: 'ticks'; options: readonly (infer One)[] }
    ? Chosen<One>[]
    : F extends { options: readonly (infer One)[] }
      ? Chosen<One>
      : (F extends { as: 'number' | 'moment' } ? number : string) | Empty<F>;
// A moment that nobody has changed is left out, also of fields that can be cleared.
type Empty<F> =
  | (F extends { clears: true } ? null : never)
  | (F extends { as: 'moment' } ? undefined : F extends { required: true } | { clears: true } ? never : undefined);
/** What was given in these fields, by name. */
export type Given<F extends readonly FieldData[]> = { [One in F[number] as One['name']]: ValueOf<One> };

function givenIn<F extends readonly FieldData[]>(fields: F, form: FormData): Given<F> {
  return Object.fromEntries(fields.map((field) => [field.name, valueIn(field, form)])) as Given<F>;
}

function valueIn({ name, as, options, value, clears, required }: FieldData, form: FormData): unknown {
  if (as === 'check') return form.has(name);
  if (as === 'ticks') return form.getAll(name);
  const text = ((form.get(name) as string | null) ?? '').trim();
  // The field tells minutes, and of an hour that comes twice not which: what nobody changed stays as it is.
  if (as === 'moment' && text === momentIn(value)) return undefined;
  if (text === '') return clears ? null : required || options ? '' : undefined;
  return as === 'moment' ? new Date(text).getTime() : as === 'number' ? Number(text) : text;
}

type FormProps<F extends readonly FieldData[]> = {
  submit: string;
  fields?: F;
  /** `minor`: one of several things that one can do here; `row`: its button stands beside the fields. */
  look?: 'minor' | 'row';
  /** Whoever may not do this is not offered it. */
  needs?: Needs;
  onSubmit(given: Given<F>): Promise<unknown>;
  says?: string | undefined;
  /** What stands above the fields; whoever may not do it sees this alone. */
  children?: ComponentChildren;
};

/** A form that says that it works, and what the api said where it refused. Without fields it is a button. */
export function Form<const F extends readonly FieldData[] = []>(props: FormProps<F>) {
  const { submit, fields = [], look, needs, onSubmit, says, children } = props;
  const may = useMay();
  const problemOf = useProblem();
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  if (!may(needs)) return <>{children}</>;
  const send = async (event: { preventDefault(): void; currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    if (isBusy) return;
    const data = new FormData(event.currentTarget);
    setBusy(true);
    setProblem(undefined);
    try {
      await onSubmit(givenIn(fields as F, data));
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  };
  const shown = fields.map((field) => <Field key={field.name} {...field} />);
  return (
    <form class={look === 'row' ? 'row' : ''} onSubmit={send}>
      {children}
      {says && <p>{says}</p>}
      {look === 'row' ? <div class="finder">{shown}</div> : shown}
      <ProblemNote problem={problem} fields={fields} />
      <button type="submit" class={look === 'minor' ? 'outline' : ''} aria-busy={isBusy} disabled={isBusy}>
        {submit}
      </button>
    </form>
  );
}

/** A button that reads something from the api and gives it to the viewer as a file. */
export function SaveButton({ path, file, text }: { path: string; file: string; text: string }) {
  const save = async () => {
    const href = URL.createObjectURL(await download(path));
    Object.assign(document.createElement('a'), { href, download: file }).click();
    URL.revokeObjectURL(href);
  };
  return <Form submit={text} look="minor" onSubmit={save} />;
}

const types: Partial<Record<NonNullable<FieldData['as']>, string>> = { credits: 'text', moment: 'datetime-local' };

/** A field with its label and, below it, what it takes; with `onText` what is typed is told at once. */
export function Field(props: FieldData & { onText?(text: string): void }) {
  const { label, hint, as = 'text', value, onText, clears: _, ...input } = props;
  const options = (props.options ?? []).map((one) => (typeof one === 'string' ? ([one, one] as const) : one));
  const id = useId();
  if (as === 'check') {
    return (
      <label>
        <input type="checkbox" name={input.name} defaultChecked={value === true} /> {label}
      </label>
    );
  }
  if (as === 'ticks') {
    return (
      <fieldset>
        <legend>{label}</legend>
        <div class="choices">
          {options.map(([one, text]) => (
            <label key={one}>
              <input
                type="checkbox"
                name={input.name}
                value={one}
                defaultChecked={(value as string[] | undefined)?.includes(one)}
              />{' '}
              {text === one ? <code>{text}</code> : text}
            </label>
          ))}
        </div>
      </fieldset>
    );
  }
  const given: object = {
    id,
    ...(hint && { 'aria-describedby': `${id}-hint` }),
    ...(onText && { [props.options ? 'onChange' : 'onInput']: (event: Typed) => onText(event.currentTarget.value) }),
  };
  // Preact types an input by its kind, which is known only here. It sets a `value` again whenever the page is drawn, and what was
  // typed meanwhile is gone: only a field that tells what is typed has one.
  const typed: object = {
    type: types[as] ?? as,
    [onText ? 'value' : 'defaultValue']: as === 'moment' ? momentIn(value) : value,
    ...(as === 'credits' && { inputMode: 'decimal' }),
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {props.options ? (
        <select name={input.name} {...given}>
          {options.map(([one, text]) => (
            <option key={one} value={one} selected={one === value}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input autocomplete="off" {...given} {...typed} {...input} />
      )}
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  );
}

type Typed = { currentTarget: { value: string } };

function momentIn(value: FieldData['value']): string {
  return value === undefined ? '' : localText(Number(value));
}
