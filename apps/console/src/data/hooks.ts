import { useLocation } from 'preact-iso/router';
import { createContext } from 'preact';
import { useCallback, useContext, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { call, CHANGED, hasEnded, Problem, takenEntry } from './call.ts';
import type { Input, Operation, Output, Session } from './call.ts';
import { masked } from './searchable.ts';

export type Workspace = Output<'get /api/v1/workspace/{id}'>['workspace'];

export const SessionContext = createContext<Session | undefined>(undefined);
/** Says that the session has ended, wherever somebody notices. */
export const EndedContext = createContext<() => void>(() => {});
export const WorkspaceContext = createContext<Workspace | undefined>(undefined);

/** Who is signed in. A token for some workspaces does nothing that is the team's. */
export function useSession() {
  const session = useContext(SessionContext)!;
  return { session, isOfTeam: session.workspaceIds === undefined };
}

/** What something asks for: a permission, or false for what nobody may any more. */
export type Needs = Permission | false | undefined;

/** Whether the session's token may do something; what it may not is not offered. In the portal is no such session. */
export function useMay(): (needed: Needs) => boolean {
  const session = useContext(SessionContext);
  return (needed) => needed === undefined || (needed !== false && session?.permissions.includes(needed) === true);
}

/** The address of a page of a workspace. */
export const pathIn = ({ id }: Pick<Workspace, 'id'>, page: string) => `/console/w/${encodeURIComponent(id)}/${page}`;

/** The workspace that was chosen, and the addresses of its pages. */
export function useWorkspace() {
  const workspace = useContext(WorkspaceContext)!;
  return { id: workspace.id, workspace, pathOf: (page: string) => pathIn(workspace, page) };
}

/** Opens the page of a thing in its own workspace: the audit log and a search by id may lead to it in another. */
export function useHome(workspaceId: string | undefined, page: string): void {
  const { id } = useWorkspace();
  const { route } = useLocation();
  const home = workspaceId !== undefined && workspaceId !== id && pathIn({ id: workspaceId }, page);
  useLayoutEffect(() => {
    if (home) route(home, true);
  }, [home]);
}

/** Begins a session with what stands in the address, once; where nobody answers it is kept for another try. One that is pasted into an open page loads it again. */
export function useEntry(form: RegExp, open: (entry: string) => Promise<unknown>): () => Promise<void> {
  const entry = useRef<string | undefined>(undefined);
  entry.current ??= takenEntry(form);
  useEffect(() => {
    const look = () => form.test(location.hash) && location.reload();
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  return async () => {
    const given = entry.current ?? '';
    entry.current = '';
    try {
      if (given) await open(given);
    } catch (error) {
      if (error instanceof Problem && error.isAway) entry.current = given;
      throw error;
    }
  };
}

/** What the address asks for behind its question mark. */
export type Asked = Partial<Record<string, string>>;

/** What the address asks for, and a way to ask for something else there: a link keeps it, and Back leads to what was before. */
export function useAsked(): readonly [asked: Asked, ask: (change: Record<string, unknown>) => void] {
  const { path, query, route } = useLocation();
  const ask = (change: Record<string, unknown>) => {
    const all = Object.entries<unknown>({ ...query, ...change }).filter(([, value]) => (value ?? '') !== '');
    const wanted = new URLSearchParams(all.map(([name, value]) => [name, String(value)])).toString();
    route(wanted ? `${path}?${masked(wanted)}` : path);
  };
  return [query, ask];
}

export type Answered<Value> = { value: Value | undefined; problem?: Problem | undefined; reload?: () => void };
/** With `more` it reads on from what is there. */
export type Read<Value> = Required<Answered<Value>> & { more(): void };

/** Reads what an operation answers, as `useRead` does; nothing without an input. */
export function useAnswer<O extends Operation>(operation: O, input: Input<O> | undefined, everyMs?: number) {
  return useRead<Output<O>>(async () => input && call(operation, input), JSON.stringify(input), everyMs);
}

/**
 * Reads something, again when `on` changes and after each change; until the first answer `value` is undefined. Where it is read
 * again and that fails, it keeps what it has. With `everyMs` it goes on reading while the tab is in sight.
 */
export function useRead<Value>(
  read: (before: Value | undefined, signal: AbortSignal) => Promise<Value | undefined>,
  on: string | undefined,
  everyMs?: number,
): Read<Value> {
  const [state, setState] = useState<{ value?: Value | undefined; readOn?: string | undefined; problem?: Problem }>({});
  // Counts how often it was to be read from its beginning: as somebody asked, or as something has changed, or may have.
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const more = useRef<() => void>(() => {});
  const problemOf = useProblem();
  useEffect(() => {
    addEventListener(CHANGED, reload);
    return () => removeEventListener(CHANGED, reload);
  }, []);
  // Before the page is drawn: the answer is here that much sooner.
  useLayoutEffect(() => {
    const over = new AbortController();
    let isReading = false;
    let before: Value | undefined;
    more.current = async () => {
      if (isReading || over.signal.aborted) return;
      isReading = true;
      try {
        const value = await read(before, over.signal);
        if (over.signal.aborted) return;
        before = value;
        setState({ value, readOn: on });
      } catch (error) {
        if (over.signal.aborted) return;
        const problem = problemOf(error);
        // A session that has ended does not begin again by itself.
        if (problem.status === 401) over.abort();
        setState((shown) => (shown.readOn === on ? { ...shown, problem } : { problem }));
      } finally {
        isReading = false;
      }
    };
    const look = () => {
      if (everyMs !== undefined && !document.hidden) more.current();
    };
    const timer = everyMs && setInterval(look, everyMs);
    document.addEventListener('visibilitychange', look);
    more.current();
    return () => {
      over.abort();
      clearInterval(timer || undefined);
      document.removeEventListener('visibilitychange', look);
    };
  }, [on, round]);
  return { value: state.value, problem: state.problem, reload, more: useCallback(() => more.current(), []) };
}

/** The item of the one list that an answer has. */
type ItemIn<Answer> = {
  [Field in keyof Answer]-?: Answer[Field] extends readonly (infer Item)[] ? Item : never;
}[keyof Answer];
export type ItemOf<O extends Operation> = ItemIn<Output<O>>;
/** What a list is asked for: all but the place of a page. */
export type ListInput<O extends Operation> = Omit<Input<O>, 'cursor'>;

type Shown<Item, On> = {
  items: readonly Item[];
  /** What these items were read on: until a new first page is there, those of before stay. */
  readOn: On;
  isWhole: boolean;
  /** How many pages in a row had nothing to keep. */
  emptyPages: number;
  cursor?: string | undefined;
};
export type Pages<Item, On = unknown> = Shown<Item, On> & Omit<Read<unknown>, 'value'>;

const NO_ITEMS: never[] = [];
/** As much of a list as is shown at once. */
export const MOST_ITEMS = 10_000;

async function readPage<O extends Operation>(operation: O, input: ListInput<O>, cursor?: string, signal?: AbortSignal) {
  const answer = await call(operation, { ...input, cursor } as Input<O>, signal);
  const { nextCursor } = answer as { nextCursor?: string };
  return { items: Object.values(answer).find(Array.isArray) as ItemOf<O>[], nextCursor };
}

type Some = { most?: number; pages?: number; signal?: AbortSignal | undefined };

/** The first items of a list, at most so many, of at most so many pages; and whether it has no others. */
export async function readSome<O extends Operation>(
  operation: O,
  input: ListInput<O>,
  { most = MOST_ITEMS, pages = Infinity, signal }: Some = {},
): Promise<{ items: ItemOf<O>[]; isWhole: boolean }> {
  const items: ItemOf<O>[] = [];
  let cursor: string | undefined;
  do {
    const page = await readPage(operation, input, cursor, signal);
    items.push(...page.items);
    cursor = page.nextCursor;
    pages -= 1;
  } while (cursor !== undefined && items.length < most && pages > 0);
  return { items: items.slice(0, most), isWhole: cursor === undefined && items.length <= most };
}

/** The same items alone. */
export const readItems = async <O extends Operation>(operation: O, input: ListInput<O>, some?: Some) =>
  (await readSome(operation, input, some)).items;

/** Reads a list page by page, of each the items to keep: the first at once, the next ones as `more` asks for them. `kept`: what `keep` goes by. */
export function usePages<O extends Operation>(
  operation: O,
  input: ListInput<O>,
  keep: (item: ItemOf<O>) => boolean = () => true,
  kept = '',
): Pages<ItemOf<O>, ListInput<O>> {
  type Known = Shown<ItemOf<O>, ListInput<O>>;
  const nothing: Known = { items: NO_ITEMS, readOn: input, isWhole: false, emptyPages: 0 };
  const { value = nothing, ...read } = useRead<Known>(
    async (before = nothing) => {
      const { items, cursor, emptyPages } = before;
      // A page that was not drawn anew yet may ask for more of what is whole: the first items would come twice.
      if (before.isWhole) return before;
      const page = await readPage(operation, input, cursor);
      // A page of a search may be empty, and the next one not.
      const found = page.items.filter(keep);
      return {
        items: [...items, ...found],
        cursor: page.nextCursor,
        readOn: input,
        isWhole: page.nextCursor === undefined,
        emptyPages: found.length > 0 ? 0 : emptyPages + 1,
      };
    },
    JSON.stringify([input, kept]),
  );
  return { ...value, ...read };
}

/** Tells what went wrong. A session that has ended shows the page where one signs in. */
export function useProblem(): (error: unknown) => Problem {
  const onEnded = useContext(EndedContext);
  return (error) => {
    if (!(error instanceof Problem)) throw error;
    if (hasEnded(error)) onEnded();
    return error;
  };
}
