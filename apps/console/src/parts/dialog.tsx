import { createContext, type ComponentChildren } from 'preact';
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks';
import { forgetUnanswered } from '../data/call.ts';
import { useMay, type Needs, type Read } from '../data/hooks.ts';
import { Form, type FieldData, type Given } from './form.tsx';
import { Loaded, Secret } from './text.tsx';

/** Shows a dialog over the page, or none. */
export const DialogContext = createContext<(dialog: ComponentChildren) => void>(() => {});

type OpensProps = {
  text: string;
  look?: 'main' | 'outline' | 'outline danger' | 'outline small' | 'link' | undefined;
  /** Its name for those who can't see the row that it stands in. */
  label?: string | undefined;
  title?: string;
  /** Whoever may not do this is not offered it. */
  needs?: Needs;
  /** The dialog. */
  children: ComponentChildren;
};

/** A button that opens a dialog. */
export function Opens({ text, look = 'outline', label, title, needs, children }: OpensProps) {
  const show = useContext(DialogContext);
  if (!useMay()(needs)) return null;
  const open = () => show(children);
  return (
    <button type="button" class={look === 'main' ? '' : look} aria-label={label} title={title} onClick={open}>
      {text}
    </button>
  );
}

/** A dialog over the page: Escape closes it, and focus goes back to where it was. */
export function Dialog({ title, children }: { title: string; children: ComponentChildren }) {
  const show = useContext(DialogContext);
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    // Else the button that closes it has the focus, as the first that can.
    dialog.current?.querySelector<HTMLElement>('input, select')?.focus();
    // The browser gives it back itself where it closes the dialog, and whoever has gone on since is not called back.
    return () => {
      forgetUnanswered();
      if (document.activeElement === document.body) before?.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={() => show(undefined)}>
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

type Shown = { title: string; body: ComponentChildren };
type AskProps<F extends readonly FieldData[], Answer> = {
  title: string;
  submit: string;
  fields?: F;
  /** What is read before it can be filled in. */
  after?: Pick<Read<unknown>, 'value' | 'problem'>;
  onSubmit(given: Given<F>): Promise<Answer>;
  /** What stands in its place once it was done; without it the dialog closes. */
  shows?(answer: Answer): Shown;
  /** What stands above the fields. */
  children?: ComponentChildren;
};

/** A button that opens such a dialog; what it says is the dialog's title, if it has no text of its own. */
export function Ask<const F extends readonly FieldData[] = [], Answer = unknown>(
  props: AskProps<F, Answer> & Partial<Omit<OpensProps, 'title' | 'children'>>,
) {
  const { text = props.title, look, label, needs, ...dialog } = props;
  return (
    <Opens {...{ text, look, label, needs }}>
      <AskDialog {...dialog} />
    </Opens>
  );
}

/** A dialog with a form, or with a question alone: it is closed once that was done. */
export function AskDialog<const F extends readonly FieldData[] = [], Answer = unknown>(props: AskProps<F, Answer>) {
  const { title, after = { value: true, problem: undefined }, onSubmit, shows, ...form } = props;
  const show = useContext(DialogContext);
  const [shown, setShown] = useState<Shown>();
  const submit = async (given: Given<F>) => {
    const answer = await onSubmit(given);
    if (shows) setShown(shows(answer));
    else show(undefined);
  };
  return (
    <Dialog title={shown?.title ?? title}>
      {shown?.body ?? <Loaded of={after}>{() => <Form {...form} onSubmit={submit} />}</Loaded>}
    </Dialog>
  );
}

/** What shows a secret once. */
export function secretOf(title: string, label: string, text: string, more?: ComponentChildren): Shown {
  return {
    title,
    body: (
      <>
        <Secret label={label} text={text} />
        {more}
      </>
    ),
  };
}
