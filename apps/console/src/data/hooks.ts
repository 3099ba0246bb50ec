import { useCallback, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Problem } from './call.ts';
import { useEnded } from './session.ts';

export type Read<Value> = { value: Value | undefined; problem: Problem | undefined; reload(): void };

/**
 * Reads something, again when `on` changes; until the first answer `value` is undefined. With `everyMs` it goes on reading while
 * the tab is in sight, each time so long after the last answer, and keeps what it has where one fails.
 */
export function useRead<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  on: readonly unknown[],
  everyMs?: number,
): Read<Value> {
  const [state, setState] = useState<{ value?: Value; problem?: Problem }>({});
  const [round, setRound] = useState(0);
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
        if (!isOver) setState({ value });
      } catch (error) {
        if (isOver) return;
        const problem = asProblem(error, onEnded);
        setState((before) => (everyMs === undefined ? { problem } : { ...before, problem }));
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
  return { value: state.value, problem: state.problem, reload: () => setRound((before) => before + 1) };
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
const MOST_PAGES = 5;

/** The items of a list's first pages: at most 1,000. */
export async function readItems<Item>(
  read: (input: { limit: number; cursor?: string }) => Promise<Page<Item>>,
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page++) {
    const answer = await read({ limit: 200, ...(cursor && { cursor }) });
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
  const [round, setRound] = useState(0);
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
          setState((before) => ({ ...before, isWhole: true, problem: asProblem(error, onEnded) }));
        },
      );
    };
    more.current();
    return () => abort.abort();
  }, [...on, round]);
  return {
    ...state,
    more: useCallback(() => more.current(), []),
    reload: () => setRound((before) => before + 1),
  };
}

/** What went wrong. A session that has ended shows the page where one signs in. */
export function asProblem(error: unknown, onEnded: () => void): Problem {
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) onEnded();
  return error;
}
