import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { parseCredits } from '../../../../shared/values/credits.ts';
import { download, wrong, type Problem } from '../data/call.ts';
import { useAsked, useMay, useProblem, type Needs } from '../data/hooks.ts';
import { searchable } from '../data/searchable.ts';
import { localText } from '../data/time.ts';
import { fieldOf, plainWords } from './plain-words.ts';
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
  /** One of these, or of these values by their texts. */
  options?: readonly Option[] | Readonly<Record<string, string>>;
  /** What each option of ticks means. */
  meanings?: Readonly<Record<string, string>>;
  /** Texts to choose from, beside any other. */
  suggests?: readonly string[] | undefined;
  /** Shown only while another field has this value. */
  shownIf?: readonly [field: string, value: string];
  /** By what names the api calls it, if not by its own. */
  told?: readonly string[];
  value?: string | number | boolean | readonly string[] | undefined;
  /** Where it is empty it is given on as null, not left out. */
  clears?: true;
  required?: true;
  autofocus?: true;
  maxLength?: number;
} & Partial<Record<'placeholder' | 'min' | 'step', string>>;

type ValueOf<F extends FieldData> = F extends { as: 'check' }
  ? boolean
  : F extends { as: 'ticks'; options: readonly (infer One)[] }
    ? Chosen<One>[]
    : F extends { options: infer All }
      ? All extends readonly (infer One)[]
        ? Chosen<One>
        : `${Extract<keyof All, string | number>}`
      : (F extends { as: 'number' | 'moment' } ? number : string) | Empty<F>;
// A moment that nobody has changed is left out, also of fields that can be cleared.
type Empty<F> =
  | (F extends { shownIf: readonly string[] } ? undefined : never)
  | (F extends { clears: true } ? null : never)
  | (F extends { as: 'moment' } ? undefined : F extends { required: true } | { clears: true } ? never : undefined);
export type Fields = readonly FieldData[];
/** What was given in these fields, by name. */
export type Given<F extends Fields> = { [One in F[number] as One['name']]: ValueOf<One> };

function givenIn<F extends Fields>(fields: F, form: FormData, isQuestion = false): Given<F> {
  return Object.fromEntries(fields.map((field) => [field.name, valueIn(field, form, isQuestion)])) as Given<F>;
}

function valueIn(field: FieldData, form: FormData, isQuestion: boolean): unknown {
  const { name, as, options, value, clears, required } = field;
  if (as === 'check') return form.has(name);
  if (as === 'ticks') return form.getAll(name);
  const text = ((form.get(name) as string | null) ?? '').trim();
  // The field tells minutes, and of an hour that comes twice not which: what nobody changed stays as it is.
  if (as === 'moment' && !isQuestion && text === momentIn(value)) return undefined;
  if (text === '') return clears ? null : required || options ? '' : undefined;
  // An amount may be written as pages show it. One separator and three digits are told apart by people alone.
  if (as === 'credits' && /^[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/.test(text) && !TWOFOLD.test(text))
    return text.replaceAll(',', '');
  return as === 'moment' ? new Date(text).getTime() : as === 'number' ? Number(text) : text;
}

type FormProps<F extends Fields> = {
  submit: string;
  fields?: F;
  /** `minor`: one of several things that one can do here; `row`: its button stands beside the fields. */
  look?: 'minor' | 'row';
  /** Whoever may not do this is not offered it. */
  needs?: Needs;
  onSubmit(given: Given<F>): Promise<unknown>;
  says?: string | undefined;
  /** What would come of it, as it is filled in. */
  preview?: ((given: Partial<Given<F>>) => ComponentChildren) | undefined;
  /** What stands above the fields; whoever may not do it sees this alone. */
  children?: ComponentChildren;
};

/** A form that says that it works, and what the api said where it refused. Without fields it is a button. */
export function Form<const F extends Fields = []>(props: FormProps<F>) {
  const { submit, fields = [], look, needs, onSubmit, says, preview, children } = props;
  const may = useMay();
  const problemOf = useProblem();
  const form = useRef<HTMLFormElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const [draft, setDraft] = useState<Partial<Record<string, unknown>>>({});
  // What the address asks for may have become another: by Back.
  const asked = look === 'row' ? JSON.stringify(fields.map(({ value }) => value)) : undefined;
  const filled = useRef(asked);
  useLayoutEffect(() => {
    if (filled.current !== asked) form.current?.reset();
    filled.current = asked;
  }, [asked]);
  if (!may(needs)) return <>{children}</>;
  const send = async (event: { preventDefault(): void; currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    if (isBusy) return;
    const data = new FormData(event.currentTarget);
    setBusy(true);
    setProblem(undefined);
    try {
      const given = givenIn(fields as F, data, look === 'row');
      requireAmounts(fields, given);
      await onSubmit(given);
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  };
  const drafts = preview !== undefined || fields.some(({ shownIf }) => shownIf);
  const typed = () => drafts && setDraft(givenIn(fields as F, new FormData(form.current!)));
  const now = { ...Object.fromEntries(fields.map(({ name, value }) => [name, value])), ...draft };
  const shown = fields.map((field) => {
    const { shownIf, name } = field;
    if (shownIf && now[shownIf[0]] !== shownIf[1]) return null;
    const wrong = problem?.details.find(({ path }) => fieldOf(fields, path) === field);
    return <Field key={name} {...field} wrong={wrong && plainWords(field, wrong.message)} />;
  });
  return (
    <form ref={form} class={look === 'row' ? 'row' : ''} onSubmit={send} onInput={typed}>
      {children}
      {says && <p>{says}</p>}
      {look === 'row' ? <div class="finder">{shown}</div> : shown}
      {preview && <p role="status">{preview(now as Partial<Given<F>>)}</p>}
      <ProblemNote problem={problem} fields={fields} />
      {/* The second click of a double one would undo what the first has done. */}
      <button
        type="submit"
        class={look === 'minor' ? 'outline' : ''}
        aria-busy={isBusy}
        disabled={isBusy}
        onClick={(event) => event.detail > 1 && event.preventDefault()}
      >
        {submit}
      </button>
    </form>
  );
}

// 1,500 is fifteen hundred where English is spoken, and one and a half elsewhere; of 1.500 it is the other way round.
const TWOFOLD = /^([1-9]\d{0,2})[.,](\d{3})$/;

// Told before anything is asked: what is done in several steps would end after the first.
function requireAmounts(fields: Fields, given: Record<string, unknown>): void {
  const details = fields.flatMap(({ as, name: path, value }) => {
    const text = given[path];
    if (as !== 'credits' || typeof text !== 'string' || text === String(value)) return [];
    const [, whole, rest] = TWOFOLD.exec(text) ?? [];
    if (whole) return { path, message: `can be read in two ways: write ${whole}${rest}, or ${whole}.${rest}0` };
    return parseCredits(text) === undefined ? { path, message: 'must match pattern' } : [];
  });
  if (details.length > 0) throw wrong('This is no amount of credits.', details);
}

/** A form whose answers stand in the address. */
export function Finder({ submit = 'Find', fields }: { submit?: string; fields: Fields }) {
  const [asked, ask] = useAsked();
  const filled = fields.map((field) => {
    const text = asked[field.name];
    return text === undefined ? field : { ...field, value: field.as === 'ticks' ? text.split(',') : text };
  });
  const find = async (given: Record<string, unknown>) => {
    const secretly = fields.filter(({ as, name }) => as === 'search' && given[name] !== undefined);
    ask({ ...given, ...Object.fromEntries(secretly.map(({ name }) => [name, searchable(String(given[name]))])) });
  };
  return <Form submit={submit} look="row" fields={filled} onSubmit={find} />;
}

/** Rows as CSV. What a spreadsheet would take for a formula begins with an apostrophe. */
export function csvOf(rows: readonly (readonly (string | number | boolean | undefined)[])[]): string {
  const cell = (value = '') => `"${value.replace(/^[=+@\t\r-]/, "'$&").replaceAll('"', '""')}"`;
  return rows.map((row) => `${row.map((one) => cell(one?.toString())).join(',')}\r\n`).join('');
}

type SaveProps = { file: string; text: string } & ({ path: string } | { read(): Promise<Blob> });

/** A button that reads something, such as a path of the api, and gives it to the viewer as a file. */
export function SaveButton({ file, text, ...from }: SaveProps) {
  const save = async () => {
    const href = URL.createObjectURL(await ('path' in from ? download(from.path) : from.read()));
    Object.assign(document.createElement('a'), { href, download: file }).click();
    URL.revokeObjectURL(href);
  };
  return <Form submit={text} look="minor" onSubmit={save} />;
}

const types: Partial<Record<NonNullable<FieldData['as']>, string>> = { credits: 'text', moment: 'datetime-local' };

type FieldProps = FieldData & { onText?(text: string): void; wrong?: string | undefined };

/** A field with its label and, below it, what it takes or what is wrong with it; with `onText` what is typed is told at once. */
export function Field(props: FieldProps) {
  // What is the form's, and not the input's.
  const { clears: _, shownIf: __, told: ___, meanings, suggests, wrong, onText, ...own } = props;
  const { label, hint, as = 'text', value, ...input } = own;
  const choices = props.options ?? [];
  const listed = Array.isArray(choices) ? (choices as readonly Option[]) : Object.entries(choices as object);
  const options = listed.map((one: Option) => (typeof one === 'string' ? ([one, one] as const) : one));
  const id = useId();
  const tick = (text: ComponentChildren, isTicked = false, one?: string) => (
    <label>
      <input type="checkbox" name={input.name} defaultChecked={isTicked} value={one} /> {text}
    </label>
  );
  if (as === 'check') return tick(label, value === true);
  if (as === 'ticks') {
    return (
      <fieldset aria-invalid={wrong ? true : undefined}>
        <legend>{label}</legend>
        {wrong && <small class="wrong">{wrong}</small>}
        <div class="choices">
          {options.map(([one, text]) => (
            <div key={one}>
              {tick(text === one ? <code>{text}</code> : text, (value as string[] | undefined)?.includes(one), one)}
              {meanings?.[one] && <small>{meanings[one]}</small>}
            </div>
          ))}
        </div>
      </fieldset>
    );
  }
  const given: object = {
    id,
    ...((hint || wrong) && { 'aria-describedby': `${id}-hint` }),
    ...(wrong && { 'aria-invalid': true }),
    ...(suggests && { list: `${id}-suggests` }),
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
        <select name={input.name} required={input.required} {...given}>
          {options.map(([one, text]) => (
            <option key={one} value={one} selected={one === value} {...asDefault(one === value)}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input autocomplete="off" {...given} {...typed} {...input} />
      )}
      {(wrong || hint) && (
        <small id={`${id}-hint`} class={wrong && 'wrong'}>
          {wrong ?? hint}
        </small>
      )}
      {suggests && <datalist id={`${id}-suggests`}>{suggests.map(optionOf)}</datalist>}
    </div>
  );
}

const optionOf = (one: string) => <option key={one} value={one} />;

// What a form goes back to when it is reset; Preact does not type it.
const asDefault = (defaultSelected: boolean): object => ({ defaultSelected });

type Typed = { currentTarget: { value: string } };

function momentIn(value: FieldData['value']): string {
  // The address may say anything.
  return Number.isNaN(new Date(Number(value)).getTime()) ? '' : localText(Number(value));
}
