import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { forgetUnanswered, Problem } from './call.ts';
import { useEnded } from './session.ts';

const CHANGED = 'keytally-changed';

/** For a dialog that closes: if something was sent in it that got no answer, every page reads again what is so. */
export function endForm(): void {
  if (forgetUnanswered()) dispatchEvent(new Event(CHANGED));
}

// Counts how often something was to be read again: as somebody asked, or as nobody knows what a request has done.
function useRound(): [round: number, next: () => void] {
  const [round, setRound] = useState(0);
  const next = useCallback(() => setRound((before) => before + 1), []);
  useEffect(() => {
    addEventListener(CHANGED, next);
    return () => removeEventListener(CHANGED, next);
  }, []);
  return [round, next];
}

function isSame(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.every((value, i) => Object.is(value, other[i]));
}

export type Read<Value> = { value: Value | undefined; problem: Problem | undefined; reload(): void };

/**
 * Reads something, again when `on` changes; until the first answer `value` is undefined. Where it is read again and that fails, it
 * keeps what it has. With `everyMs` it goes on reading while the tab is in sight, each time so long after the last answer.
 */
export function useRead<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  on: readonly unknown[],
  everyMs?: number,
): Read<Value> {
  const [state, setState] = useState<{ value?: Value; readOn?: readonly unknown[]; problem?: Problem }>({});
  const [round, reload] = useRound();
  const onEnded = useEnded();
  // Before the page is drawn: the answer is here that much sooner.
  useLayoutEffect(() => {
    let reading: AbortController | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const again = async () => {
      clearTimeout(timer);
      // One for each read: a signal of many would hold on to all of them.
      const own = new AbortController();
      reading = own;
      try {
        const value = await read(own.signal);
        if (!isOver) setState({ value, readOn: on });
      } catch (error) {
        if (isOver) return;
        const problem = asProblem(error, onEnded);
        setState((before) => (before.readOn && isSame(before.readOn, on) ? { ...before, problem } : { problem }));
      } finally {
        reading = undefined;
        if (everyMs !== undefined && !isOver && !document.hidden) timer = setTimeout(again, everyMs);
      }
    };
    const onSight = () => {
      clearTimeout(timer);
      if (everyMs !== undefined && !document.hidden && !reading) void again();
    };
    void again();
    document.addEventListener('visibilitychange', onSight);
    return () => {
      isOver = true;
      clearTimeout(timer);
      reading?.abort();
      document.removeEventListener('visibilitychange', onSight);
    };
  }, [...on, round]);
  return { value: state.value, problem: state.problem, reload };
}

export type Pages<Item, On> = {
  items: Item[];
  /** What these items were read on: until a new first page is there, those of before stay. */
  readOn: On;
  isWhole: boolean;
  /** Whether a search has stopped after many pages without a find; `more` goes on. */
  isPaused: boolean;
  problem: Problem | undefined;
  more(): void;
  reload(): void;
};
type Page<Item> = { items: Item[]; nextCursor?: string | undefined };

const EMPTY_PAGES = 20;
const ITEMS_OF_PAGE = 200;
/** As much of a list as is shown at once. */
export const MOST_ITEMS = 10_000;

/** The first items of a list, at most `MOST_ITEMS`. */
export async function readItems<Item>(
  read: (input: { limit: number; cursor?: string }) => Promise<Page<Item>>,
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | undefined;
  while (items.length < MOST_ITEMS) {
    const answer = await read({ limit: ITEMS_OF_PAGE, ...(cursor && { cursor }) });
    items.push(...answer.items);
    if ((cursor = answer.nextCursor) === undefined) break;
  }
  return items;
}

/** Reads a list page by page: the first at once, the next ones as `more` asks for them. */
export function usePages<Item, const On extends readonly unknown[]>(
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<Item>>,
  on: On,
): Pages<Item, On> {
  const [state, setState] = useState<Omit<Pages<Item, On>, 'more' | 'reload'>>({
    items: [],
    readOn: on,
    isWhole: false,
    isPaused: false,
    problem: undefined,
  });
  const [round, reload] = useRound();
  const onEnded = useEnded();
  const more = useRef<() => void>(() => {});
  useLayoutEffect(() => {
    const abort = new AbortController();
    let cursor: string | undefined;
    let isReading = false;
    let emptyPages = 0;
    more.current = () => {
      if (isReading || abort.signal.aborted) return;
      isReading = true;
      read(cursor, abort.signal).then(
        ({ items, nextCursor }) => {
          if (abort.signal.aborted) return;
          isReading = false;
          const isFirst = cursor === undefined;
          cursor = nextCursor;
          // A page of a search may be empty, and the next one not.
          const goesOn = items.length === 0 && nextCursor !== undefined;
          emptyPages = goesOn ? emptyPages + 1 : 0;
          const isPaused = goesOn && emptyPages % EMPTY_PAGES === 0;
          setState((before) => ({
            items: isFirst ? items : [...before.items, ...items],
            readOn: on,
            isWhole: nextCursor === undefined,
            isPaused,
            problem: undefined,
          }));
          if (goesOn && !isPaused) more.current();
        },
        (error: unknown) => {
          if (abort.signal.aborted) return;
          isReading = false;
          const problem = asProblem(error, onEnded);
          setState((before) => ({
            ...(isSame(before.readOn, on) ? before : { items: [], isWhole: false, isPaused: false }),
            readOn: on,
            problem,
          }));
        },
      );
    };
    more.current();
    return () => abort.abort();
  }, [...on, round]);
  return {
    ...state,
    more: useCallback(() => more.current(), []),
    reload,
  };
}

/** What went wrong. A session that has ended shows the page where one signs in. */
export function asProblem(error: unknown, onEnded: () => void): Problem {
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) onEnded();
  return error;
}
