import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Operation } from '../data/call.ts';
import { MOST_ITEMS, useAsked, useMay, usePages } from '../data/hooks.ts';
import type { Answered, ItemOf, ListInput, Needs, Pages } from '../data/hooks.ts';
import { Page, Section } from './page.tsx';
import { Amount, Empty, None, PageLink, ProblemNote, State, Time, type Standing } from './text.tsx';

/** A value of an item: by the name of its field, or by what finds it. */
type Of<Item, Value> =
  | { [Field in keyof Item]-?: Item[Field] extends Value | undefined ? Field : never }[keyof Item]
  | ((item: Item) => Value | undefined);
type Text = string | number;

/** What a cell shows: a text, which tells all of itself on hover, and may lead to a page, or what stands for none; or something else. */
type Cell<Item> =
  | { text: Of<Item, Text>; link?(item: Item): string | undefined | false; none?: string }
  | { code: Of<Item, string> }
  | { amount: Of<Item, Text> }
  | { time: Of<Item, Text>; isAgo?: true }
  | { state(item: Item): Standing }
  | { cell(item: Item): ComponentChildren };

export type Column<Item> = Cell<Item> & {
  title: string;
  width?: string;
  /** What its buttons need: whoever may not use them does not see it. */
  needs?: Needs;
};

type TableProps<Item> = {
  label: string;
  columns: readonly Column<Item>[];
  items: readonly Item[];
  /** Whether no further items exist; else `more` asks for them. */
  isWhole?: boolean;
  more?(): void;
  /** What an empty list says: what to do about it. */
  empty?: ComponentChildren;
};

const ROWS_BEYOND = 12;
const FEW = 40;
const EMPTY_PAGES = 20;

/**
 * A list as a table, sorted as the address asks. Of a long one only the rows in sight are in the page, so that any number of
 * them scrolls.
 */
export function Table<Item>(props: TableProps<Item>) {
  const { label, isWhole = true, more, empty } = props;
  const may = useMay();
  const columns = props.columns.filter(({ needs }) => may(needs));
  const { items, by, isDown, sort } = useSorted(props, columns);
  const region = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  // All rows are of one height; where the screen is narrow, of as many lines as there are columns.
  const rowPx = region.current?.querySelector<HTMLElement>('tbody tr:not(.space)')?.offsetHeight ?? 44;
  const inSight = Math.ceil((region.current?.clientHeight ?? 600) / rowPx);
  const [isPrinted, setPrinted] = useState(false);
  useEffect(() => {
    const print = matchMedia('print');
    const look = () => setPrinted(print.matches);
    print.addEventListener('change', look);
    return () => print.removeEventListener('change', look);
  }, []);
  const isLong = items.length > FEW && !isPrinted;
  const first = isLong ? Math.max(0, Math.floor(top / rowPx) - ROWS_BEYOND) : 0;
  const last = isLong ? Math.min(items.length, first + inSight + 2 * ROWS_BEYOND) : items.length;
  // The first by an order is known once all are there.
  const wantsAll = by !== undefined && items.length < MOST_ITEMS;
  useEffect(() => {
    if (!isWhole && !isPrinted && (wantsAll || last >= items.length - ROWS_BEYOND)) more?.();
  }, [isWhole, last, items, wantsAll]);

  const space = (rows: number) =>
    rows > 0 && <tr aria-hidden="true" class="space" style={{ height: `${rows * rowPx}px` }} />;
  if (items.length === 0) return isWhole ? empty && <Empty>{empty}</Empty> : <p aria-busy="true">Loading…</p>;
  return (
    <>
      <div
        class="table"
        ref={region}
        role="region"
        aria-label={label}
        tabIndex={0}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <table aria-rowcount={isWhole ? items.length + 1 : -1}>
          <thead>
            <tr aria-rowindex={1}>
              {columns.map((column) => (
                <th
                  key={column.title}
                  scope="col"
                  class={classOf(column)}
                  style={{ width: column.width }}
                  aria-sort={column === by ? (isDown ? 'descending' : 'ascending') : undefined}
                >
                  {orderIn(column) && items.length > 1 ? (
                    <button type="button" class="sort" title={`Sort by ${column.title}`} onClick={() => sort(column)}>
                      {column.title}
                    </button>
                  ) : (
                    column.title
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {space(first)}
            {items.slice(first, last).map((item, i) => (
              <tr key={(item as { id?: string }).id ?? first + i} aria-rowindex={first + i + 2}>
                {columns.map((column) => (
                  <td key={column.title} class={classOf(column)} data-title={column.title}>
                    {shownIn(column, item)}
                  </td>
                ))}
              </tr>
            ))}
            {space(items.length - last)}
          </tbody>
        </table>
      </div>
      {by && !isWhole && <p class="muted">Sorted are those that were read: there are more.</p>}
    </>
  );
}

/** The items in the order that the address asks for, and a way to ask for another: `sort=Keys.Name`, `-` before it from the last to the first. */
function useSorted<Item>({ items, label, columns: all }: TableProps<Item>, columns: readonly Column<Item>[]) {
  const [{ sort: asked = '' }, ask] = useAsked();
  const nameOf = ({ title }: Column<Item>) => `${label}.${title}`;
  const isDown = asked.startsWith('-');
  const by = columns.find((column) => nameOf(column) === asked.replace(/^-/, ''));
  const sorted = useMemo(() => {
    const valueIn = by && orderIn(by);
    if (!valueIn) return items;
    const valued = items.map((item) => [valueIn(item), item] as const);
    valued.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (isDown ? -1 : 1));
    return valued.map(([, item]) => item);
  }, [items, asked, all]);
  // What is most comes first, of names what begins with A.
  const sort = (column: Column<Item>) => {
    const startsDown = 'amount' in column || 'time' in column;
    ask({ sort: `${(column === by ? !isDown : startsDown) ? '-' : ''}${nameOf(column)}` });
  };
  return { items: sorted, by, isDown, sort };
}

function orderIn<Item>(column: Column<Item>): ((item: Item) => string | number) | undefined {
  if ('amount' in column) return (item) => Number(valueOf(item, column.amount) ?? 0);
  if ('time' in column) return (item) => new Date(valueOf(item, column.time) ?? 0).getTime();
  if ('state' in column) return (item) => column.state(item)[1];
  const text = 'text' in column ? column.text : 'code' in column ? column.code : undefined;
  return text && ((item) => String(valueOf<Item, Text>(item, text as Of<Item, Text>) ?? '').toLowerCase());
}

type ListedProps<Value, Item> = Omit<TableProps<Item>, 'label' | 'items'> & {
  title: string;
  action?: ComponentChildren;
  of: Answered<Value>;
  items(value: Value): readonly Item[];
};

/** A part of a page: what an answer has, as a table. */
export function Listed<Value, Item>({ title, action, of, items, ...table }: ListedProps<Value, Item>) {
  const shown = (value: Value) => <Table {...table} label={title} items={items(value)} />;
  return <Section {...{ title, action, of }}>{shown}</Section>;
}

type PagedProps<Item> = Omit<TableProps<Item>, 'items' | 'isWhole' | 'more'> & { pages: Pages<Item> };

/** A list that is read page by page. What was read stays where a further page fails, and waits for another try. */
export function PagedTable<Item>({ pages, ...props }: PagedProps<Item>) {
  const { problem, more, items, isWhole, emptyPages } = pages;
  const isPaused = !isWhole && emptyPages > 0 && emptyPages % EMPTY_PAGES === 0;
  const table = { ...props, items, isWhole: isWhole || isPaused, ...(!problem && { more }) };
  return (
    <>
      <ProblemNote problem={problem} onRetry={more} />
      {(!problem || items.length > 0) && <Table {...table} empty={!isPaused && props.empty} />}
      {/* A search that finds little ends by itself, so that an open page does not read all of a long list. */}
      {isPaused && (
        <p role="status">
          Nothing more was found so far.{' '}
          <button type="button" class="outline small" onClick={more}>
            Look further
          </button>
        </p>
      )}
    </>
  );
}

type ListProps<O extends Operation> = Omit<PagedProps<ItemOf<O>>, 'pages' | 'label'> & {
  of: O;
  input: ListInput<O>;
  /** Which of its items are shown; default: all. */
  keep?(item: ItemOf<O>): boolean;
  action?: ComponentChildren;
  label?: string;
  /** Of a list that is a part of a page; or a page itself. */
  title?: string;
  page?: string;
};

/** What an operation lists, page by page. */
export function List<const O extends Operation>({ of, input, keep, title, page, action, ...table }: ListProps<O>) {
  const list = <PagedTable label={title ?? page ?? ''} {...table} pages={usePages(of, input, keep)} />;
  if (page) return <Page {...{ title: page, action }}>{list}</Page>;
  return title ? <Section {...{ title, action }}>{list}</Section> : list;
}

const classOf = (column: object) => ('amount' in column ? 'number' : undefined);

function shownIn<Item>(column: Column<Item>, item: Item): ComponentChildren {
  if ('cell' in column) return column.cell(item);
  if ('amount' in column) return <Amount of={valueOf(item, column.amount)} />;
  if ('state' in column) return <State of={column.state(item)} />;
  if ('time' in column) return <Time at={valueOf(item, column.time)} isAgo={column.isAgo} />;
  if ('code' in column) return <code title={valueOf(item, column.code)}>{valueOf(item, column.code)}</code>;
  const text = valueOf(item, column.text);
  if (text === undefined) return column.none && <None>{column.none}</None>;
  return (
    <PageLink to={column.link?.(item)} title={String(text)}>
      {text}
    </PageLink>
  );
}

function valueOf<Item, Value>(item: Item, of: Of<Item, Value>): Value | undefined {
  return typeof of === 'function' ? of(item) : (item[of] as Value | undefined);
}
