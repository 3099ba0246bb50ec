import { createContext, type ComponentChildren } from 'preact';
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { forgetUnanswered, holdPage } from '../data/call.ts';
import { useMay, useRead, type Needs } from '../data/hooks.ts';
import { Form, type Fields, type Given } from './form.tsx';
import { Loaded } from './text.tsx';

/** Shows a dialog over the page, or none. */
export const DialogContext = createContext<(dialog: ComponentChildren) => void>(() => {});

type OpensProps = {
  text: string;
  look?: 'main' | 'outline' | 'outline danger' | 'outline small' | 'link' | undefined;
  label?: string | undefined;
  title?: string | undefined;
  needs?: Needs;
  children: ComponentChildren;
};

/** A button that opens a dialog, for whoever may. `label`: its name for those who can't see the row that it stands in. */
export function Opens({ text, look = 'outline', label, title, needs, children }: OpensProps) {
  const show = useContext(DialogContext);
  if (!useMay()(needs)) return null;
  return (
    <button
      type="button"
      title={title}
      class={look === 'main' ? '' : look}
      aria-haspopup="dialog"
      aria-label={label}
      onClick={() => show(children)}
    >
      {text}
    </button>
  );
}

type DialogProps = { title: string; holds?: 'close' | 'escape' | undefined; children: ComponentChildren };

/**
 * A dialog over the page: Escape closes it, and focus goes back to where it was. It may hold: `close` while its
 * answer is awaited, so that nothing closes it; `escape` while it shows what is shown once, so that Escape does not.
 */
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

type Undoing = { says: string; undo(): Promise<unknown> };

/** Shows something once what was asked for is done, or nothing any more, but not in the place of a dialog that was opened meanwhile. */
function useShowLater() {
  const show = useContext(DialogContext);
  return (what: ComponentChildren) => document.querySelector('dialog') === null && show(what);
}

/** Says what was done, with a button that undoes it, until something is opened or the page is left. */
function Undo({ says, undo }: Undoing) {
  const show = useShowLater();
  return (
    <div class="notice undo" role="status">
      {says} <Form submit="Undo" look="minor" onSubmit={() => undo().then(() => show(undefined))} />
    </div>
  );
}

/** A button that disables what is enabled, and enables it again. */
export function Switch({ is, onChange }: { is: boolean; onChange(what: { enabled: boolean }): Promise<unknown> }) {
  const show = useShowLater();
  const turn = async () => {
    await onChange({ enabled: !is });
    show(is && <Undo says="It is disabled." undo={() => onChange({ enabled: true })} />);
  };
  return <Form submit={is ? 'Disable' : 'Enable'} look="minor" onSubmit={turn} />;
}

/** A secret, under the title of its dialog, and what else is said of it. */
export type Revealed = { title: string; label: string; text: string; more?: ComponentChildren };
type AskProps<F extends Fields, A, V> = {
  title: string;
  submit: string;
  /** What is read before it can be filled in, and has a part in the fields. */
  reads?(): Promise<V>;
  fields?: F | ((value: V) => F);
  onSubmit(given: Given<F>): Promise<A>;
  /** The secret that is shown once it was done; without one the dialog closes. */
  shows?(answer: A): Revealed | undefined;
  undoing?: Undoing | undefined;
  /** What it says above its fields, and below them of what they hold. */
  says?: string | undefined;
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

type AskButtonProps<F extends Fields, A, V> = Omit<AskProps<F, A, V>, 'title' | 'submit'> &
  Partial<Pick<OpensProps, 'text' | 'look'>> &
  ((Does & { submit?: string }) | { does?: undefined; title: string; submit: string }) & {
    /** What its row is called, of one that stands in a table. */
    row?: string | undefined;
  };

/** A button that opens such a dialog; it says the dialog's title, if it has no text of its own. */
export function Ask<const F extends Fields = [], A = unknown, V = unknown>(props: AskButtonProps<F, A, V>) {
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
export function AskDialog<const F extends Fields = [], A = unknown, V = unknown>(props: AskProps<F, A, V>) {
  const { title, reads, fields = [] as Fields as F, onSubmit, shows, undoing, ...form } = props;
  const show = useContext(DialogContext);
  const asked = useRead(async () => reads?.(), '');
  const read = reads ? asked : { value: {} as V };
  const [shown, setShown] = useState<Revealed>();
  const [isCopied, setCopied] = useState(false);
  const [isMaking, setMaking] = useState(false);
  const hasSecret = (shows && isMaking) || shown !== undefined;
  useLayoutEffect(() => (hasSecret ? holdPage() : undefined), [hasSecret]);
  // A page that was left meanwhile has taken it along.
  const isOpen = useRef(true);
  useEffect(() => () => void (isOpen.current = false), []);
  const isReady = read.value !== undefined;
  useEffect(() => {
    if (isReady) document.querySelector<HTMLElement>('dialog :is(input, select)')?.focus();
  }, [isReady]);
  const submit = async (given: Given<F>) => {
    setMaking(true);
    try {
      const answer = await onSubmit(given);
      const revealed = shows?.(answer);
      if (revealed) setShown(revealed);
      else if (isOpen.current) show(undoing && <Undo {...undoing} />);
    } finally {
      setMaking(false);
    }
  };
  return (
    <Dialog title={shown?.title ?? title} holds={isMaking ? 'close' : shown && !isCopied ? 'escape' : undefined}>
      {shown ? (
        <Secret {...shown} onCopied={() => setCopied(true)} />
      ) : (
        <Loaded of={read}>
          {(value) => (
            <Form {...form} fields={typeof fields === 'function' ? fields(value) : fields} onSubmit={submit} />
          )}
        </Loaded>
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
