import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Operation } from '../data/call.ts';
import { useMay, usePages, type ItemOf, type ListInput, type Needs, type Pages, type Read } from '../data/hooks.ts';
import { Section } from './page.tsx';
import { Amount, Empty, Loaded, None, ProblemNote, Time } from './text.tsx';

/** A value of an item: by the name of its field, or by what finds it. */
type Of<Item, Value> =
  | { [Field in keyof Item]-?: Item[Field] extends Value | undefined ? Field : never }[keyof Item]
  | ((item: Item) => Value | undefined);
type Text = string | number;

/** What a cell shows: a text, which tells all of itself on hover, and may lead somewhere, or what stands for none; or something else. */
type Cell<Item> =
  | { text: Of<Item, Text>; link?(item: Item): string | undefined; none?: string }
  | { code: Of<Item, string> }
  | { amount: Of<Item, Text> }
  | { time: Of<Item, Text> }
  | { cell(item: Item): ComponentChildren; isMark?: true };

export type Column<Item> = Cell<Item> & {
  title: string;
  /** Left out where the screen is narrow. */
  isExtra?: true;
  /** Where the screen is narrow it takes what room the others leave. */
  isMain?: true;
  /** A second line, where the screen is narrow: what its other columns would say. */
  below?: Of<Item, Text>;
  /** Beside the title, where there is room. */
  note?: string;
  width?: string;
  /** What its buttons need: whoever may not use them does not see it. */
  needs?: Needs;
};

type TableProps<Item> = {
  label: string;
  columns: readonly Column<Item>[];
  items: readonly Item[];
  /** Tells items apart; default: their ids, or else their names. */
  keyOf?(item: Item): string;
  /** Whether no further items exist; else `more` asks for them. */
  isWhole?: boolean;
  more?(): void;
  /** All rows are in the page: for a form around them, or because their texts wrap. */
  isFlat?: 'form' | 'wraps';
  /** What an empty list says: what to do about it. */
  empty?: ComponentChildren;
};

const ROW_PX = 44;
const ROWS_BEYOND = 12;
const FEW = 40;

/** A list as a table. Of a long one only the rows in sight are in the page, so that any number of them scrolls. */
export function Table<Item>(props: TableProps<Item>) {
  const { label, items, keyOf = idOf, isWhole = true, more, isFlat, empty } = props;
  const may = useMay();
  const columns = props.columns.filter(({ needs }) => may(needs));
  const region = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const inSight = Math.ceil((region.current?.clientHeight ?? 600) / ROW_PX);
  const isLong = !isFlat && items.length > FEW;
  const first = isLong ? Math.max(0, Math.floor(top / ROW_PX) - ROWS_BEYOND) : 0;
  const last = isLong ? Math.min(items.length, first + inSight + 2 * ROWS_BEYOND) : items.length;
  useEffect(() => {
    if (!isWhole && last >= items.length - ROWS_BEYOND) more?.();
  }, [isWhole, last, items]);

  if (items.length === 0) return isWhole ? empty && <Empty>{empty}</Empty> : <p aria-busy="true">Loading…</p>;
  return (
    <div
      class="table"
      ref={region}
      role="region"
      aria-label={label}
      tabIndex={0}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <table class={isFlat} aria-rowcount={isWhole ? items.length + 1 : -1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)} style={{ width: column.width }}>
                {column.title}
                {column.note && <span class="extra"> ({column.note})</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Space rows={first} columns={columns.length} />}
          {items.slice(first, last).map((item, i) => (
            <tr key={keyOf(item)} aria-rowindex={first + i + 2}>
              {columns.map((column) => (
                <td
                  key={column.title}
                  class={classOf(column)}
                  data-below={(column.below && valueOf(item, column.below)) || undefined}
                >
                  {shownIn(column, item)}
                </td>
              ))}
            </tr>
          ))}
          {last < items.length && <Space rows={items.length - last} columns={columns.length} />}
        </tbody>
      </table>
    </div>
  );
}

type ListedProps<Value, Item> = Omit<TableProps<Item>, 'label' | 'items'> & {
  title: string;
  of: Read<Value>;
  items(value: Value): readonly Item[];
};

/** A part of a page: what an answer has, as a table. */
export function Listed<Value, Item>({ title, of, items, ...table }: ListedProps<Value, Item>) {
  return (
    <Section title={title}>
      <Loaded of={of}>{(value) => <Table {...table} label={title} items={items(value)} />}</Loaded>
    </Section>
  );
}

type PagedProps<Item> = Omit<TableProps<Item>, 'items' | 'isWhole' | 'more'> & { pages: Pages<Item> };

/** A list that is read page by page. What was read stays where a further page fails, and waits for another try. */
export function PagedTable<Item>({ pages, ...props }: PagedProps<Item>) {
  const { problem, more, items, isWhole, isPaused } = pages;
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
  label?: string;
  /** Of a list that is a part of a page. */
  title?: string;
  action?: ComponentChildren;
};

/** What an operation lists, page by page. */
export function List<const O extends Operation>(props: ListProps<O>) {
  const { of, input, keep, title = '', label = title, action, ...table } = props;
  const list = <PagedTable {...table} label={label} pages={usePages(of, input, keep)} />;
  if (!title) return list;
  return (
    <Section title={title} action={action}>
      {list}
    </Section>
  );
}

function Space({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr aria-hidden="true" class="space">
      <td colSpan={columns} style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  );
}

function classOf<Item>(column: Column<Item>): string {
  const isMark = 'cell' in column && column.isMark;
  const kinds = { number: 'amount' in column, mark: isMark, extra: column.isExtra, main: column.isMain };
  return Object.entries(kinds)
    .flatMap(([name, is]) => (is ? name : []))
    .join(' ');
}

function shownIn<Item>(column: Column<Item>, item: Item): ComponentChildren {
  if ('cell' in column) return column.cell(item);
  if ('amount' in column) return <Amount of={valueOf(item, column.amount)} />;
  if ('time' in column) return <Time at={valueOf(item, column.time)} />;
  if ('code' in column) return <code title={valueOf(item, column.code)}>{valueOf(item, column.code)}</code>;
  const text = valueOf(item, column.text);
  if (text === undefined) return column.none && <None>{column.none}</None>;
  const href = column.link?.(item);
  if (href === undefined) return <span title={String(text)}>{text}</span>;
  return (
    <a href={href} title={String(text)}>
      {text}
    </a>
  );
}

function valueOf<Item, Value>(item: Item, of: Of<Item, Value>): Value | undefined {
  return typeof of === 'function' ? of(item) : (item[of] as Value | undefined);
}

function idOf(item: unknown): string {
  const { id, name } = item as { id?: string; name?: string };
  return id ?? name ?? '';
}
