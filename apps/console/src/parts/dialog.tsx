import { createContext, type ComponentChildren } from 'preact';
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { forgetUnanswered, holdPage } from '../data/call.ts';
import { useMay, type Needs, type Answered } from '../data/hooks.ts';
import { Form, type FieldData, type Given } from './form.tsx';
import { Loaded } from './text.tsx';

/** Shows a dialog over the page, or none. */
export const DialogContext = createContext<(dialog: ComponentChildren) => void>(() => {});

type OpensProps = {
  text: string;
  look?: 'main' | 'outline' | 'outline danger' | 'outline small' | 'link' | undefined;
  /** Its name for those who can't see the row that it stands in. */
  label?: string | undefined;
  title?: string | undefined;
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
    <button
      type="button"
      title={title}
      class={look === 'main' ? '' : look}
      aria-haspopup="dialog"
      aria-label={label}
      onClick={open}
    >
      {text}
    </button>
  );
}

type DialogProps = {
  title: string;
  /** `close`: nothing closes it, as what is shown once is being made; `escape`: Escape does not, as that is there. */
  holds?: 'close' | 'escape' | undefined;
  children: ComponentChildren;
};

/** A dialog over the page: Escape closes it unless it `holds`, and focus goes back to where it was. */
export function Dialog({ title, holds, children }: DialogProps) {
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
  // Where a browser does not know it, the event says so once.
  const closedBy: object = holds ? { closedby: 'none' } : {};
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      {...closedBy}
      onCancel={(event) => holds && event.preventDefault()}
      onClose={() => show(undefined)}
    >
      <article>
        <header>
          <button
            type="button"
            aria-label="Close"
            class="close"
            disabled={holds === 'close'}
            onClick={() => dialog.current?.close()}
          />
          <h2 id={id}>{title}</h2>
        </header>
        {children}
      </article>
    </dialog>
  );
}

/** A secret, under the title of its dialog, and what else is said of it. */
export type Revealed = { title: string; label: string; text: string; more?: ComponentChildren };
type AskProps<F extends readonly FieldData[], Answer> = {
  title: string;
  submit: string;
  fields?: F;
  /** What is read before it can be filled in. */
  after?: Answered<unknown>;
  onSubmit(given: Given<F>): Promise<Answer>;
  /** The secret that is shown once it was done; without one the dialog closes. */
  shows?(answer: Answer): Revealed | undefined;
  /** What it says above its fields, and below them of what they hold. */
  says?: string;
  preview?: ((given: Partial<Given<F>>) => ComponentChildren) | undefined;
  /** Whoever may not do it is shown its children alone. */
  needs?: Needs;
  children?: ComponentChildren;
};

/** What is done with a thing, such as a `key`: its words and looks, where nothing else is said. */
type Does = { does: 'New' | 'Edit' | 'Delete' | 'Revoke' | 'Rotate' | 'Void'; one: string };

function wordsOf({ does, one }: Does) {
  if (does === 'New')
    return { text: `New ${one}`, title: `New ${one}`, submit: `Create ${one}`, look: 'main' } as const;
  const submit = does === 'Edit' ? 'Save' : does === 'Rotate' ? `Rotate ${one}` : `${does} for good`;
  const look = does === 'Delete' ? ('outline danger' as const) : undefined;
  return { text: does, title: `${does} the ${one}`, submit, look };
}

type AskButtonProps<F extends readonly FieldData[], Answer> = Omit<AskProps<F, Answer>, 'title' | 'submit'> &
  Partial<Pick<OpensProps, 'text' | 'look'>> &
  ((Does & { submit?: string }) | { does?: undefined; title: string; submit: string }) & {
    /** What its row is called, of one that stands in a table. */
    row?: string | undefined;
  };

/** A button that opens such a dialog; it says the dialog's title, if it has no text of its own. */
export function Ask<const F extends readonly FieldData[] = [], Answer = unknown>(props: AskButtonProps<F, Answer>) {
  const asked = props.does ? { ...wordsOf(props), ...props } : { text: props.title, ...props };
  const { text, look, needs, row, ...dialog } = asked;
  const button = row === undefined ? { look } : { look: 'outline small' as const, label: `${text} ${row}` };
  return (
    <Opens {...button} text={text} needs={needs}>
      <AskDialog {...dialog} />
    </Opens>
  );
}

/** A dialog with a form, or with a question alone: it is closed once that was done. */
export function AskDialog<const F extends readonly FieldData[] = [], Answer = unknown>(props: AskProps<F, Answer>) {
  const { title, after, onSubmit, shows, ...form } = props;
  const show = useContext(DialogContext);
  const [shown, setShown] = useState<Revealed>();
  const [isCopied, setCopied] = useState(false);
  const [isMaking, setMaking] = useState(false);
  const hasSecret = isMaking || shown !== undefined;
  useLayoutEffect(() => (hasSecret ? holdPage() : undefined), [hasSecret]);
  const isReady = after?.value !== undefined;
  useEffect(() => {
    if (isReady) document.querySelector<HTMLElement>('dialog :is(input, select)')?.focus();
  }, [isReady]);
  const submit = async (given: Given<F>) => {
    setMaking(shows !== undefined);
    try {
      const answer = await onSubmit(given);
      const revealed = shows?.(answer);
      if (revealed) setShown(revealed);
      else show(undefined);
    } finally {
      setMaking(false);
    }
  };
  const asked = <Form {...form} onSubmit={submit} />;
  return (
    <Dialog title={shown?.title ?? title} holds={isMaking ? 'close' : shown && !isCopied ? 'escape' : undefined}>
      {shown ? (
        <Secret {...shown} onCopied={() => setCopied(true)} />
      ) : after ? (
        <Loaded of={after}>{() => asked}</Loaded>
      ) : (
        asked
      )}
    </Dialog>
  );
}

/** A secret that is shown once, with a button that copies it. Until then Escape leaves it there. */
function Secret({ label, text, more, onCopied }: Revealed & { onCopied(): void }) {
  const [state, setState] = useState('');
  const field = useRef<HTMLInputElement>(null);
  // Where the button was that made it, so that a screen reader tells of it.
  useEffect(() => field.current?.focus(), []);
  const copy = async () => {
    try {
      // Over plain HTTP browsers have no clipboard, but for localhost.
      await navigator.clipboard.writeText(text);
      setState('Copied');
      onCopied();
    } catch {
      field.current?.focus();
      field.current?.select();
      setState('The browser does not allow it: it is selected, copy it by hand');
    }
  };
  return (
    <>
      <p>Store it now: it is shown this once.</p>
      <div role="group">
        <input ref={field} readOnly aria-label={label} value={text} onFocus={(event) => event.currentTarget.select()} />
        <button type="button" onClick={copy}>
          Copy
        </button>
      </div>
      <p role="status">{state}</p>
      {more}
    </>
  );
}
