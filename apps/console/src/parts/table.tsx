import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Pages } from '../data/hooks.ts';
import { Empty, ProblemNote } from './text.tsx';

export type Column<Item> = {
  title: string;
  cell(item: Item): ComponentChildren;
  /** Numbers stand at the right. */
  isNumber?: boolean;
  /** Left out where the screen is narrow. */
  isExtra?: boolean;
  /** Where the screen is narrow it takes what room the others leave. */
  isMain?: boolean;
  /** A second line, where the screen is narrow: what its other columns would say. */
  below?(item: Item): string | undefined;
  /** Beside the title, where there is room. */
  note?: string;
  width?: string;
};

type TableProps<Item> = {
  label: string;
  columns: readonly Column<Item>[];
  items: readonly Item[];
  keyOf(item: Item): string;
  /** Whether no further items exist; else `more` asks for them. */
  isWhole?: boolean;
  /** Whether a search has stopped before its end. */
  isPaused?: boolean;
  more?(): void;
  empty: ComponentChildren;
};

const ROW_PX = 44;
const ROWS_BEYOND = 12;
const FEW = 40;

/** A list as a table. Of a long one only the rows in sight are in the page, so that any number of them scrolls. */
export function Table<Item>(props: TableProps<Item>) {
  const { label, columns, items, keyOf, isWhole = true, isPaused = false, more, empty } = props;
  const region = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const inSight = Math.ceil((region.current?.clientHeight ?? 600) / ROW_PX);
  const isLong = items.length > FEW;
  const first = isLong ? Math.max(0, Math.floor(top / ROW_PX) - ROWS_BEYOND) : 0;
  const last = isLong ? Math.min(items.length, first + inSight + 2 * ROWS_BEYOND) : items.length;
  useEffect(() => {
    if (!isWhole && last >= items.length - ROWS_BEYOND) more?.();
  }, [isWhole, last, items]);

  if (isPaused) return <Further {...props} />;
  if (items.length === 0) return isWhole ? <Empty>{empty}</Empty> : <p aria-busy="true">Loading…</p>;
  return (
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
                <td key={column.title} class={classOf(column)} data-below={column.below?.(item) || undefined}>
                  {column.cell(item)}
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

type PagedProps<Item> = Omit<TableProps<Item>, 'items' | 'isWhole' | 'isPaused' | 'more'> & {
  pages: Omit<Pages<Item, unknown>, 'readOn' | 'reload'>;
};

/** A list that is read page by page. What was read stays where a further page fails, and waits for another try. */
export function PagedTable<Item>({ pages: { problem, more, ...list }, ...props }: PagedProps<Item>) {
  return (
    <>
      <ProblemNote problem={problem} onRetry={more} />
      {(!problem || list.items.length > 0) && <Table {...props} {...list} {...(!problem && { more })} />}
    </>
  );
}

// A search that finds little ends by itself, so that an open page does not read all of a long list.
function Further<Item>(props: TableProps<Item>) {
  return (
    <>
      {props.items.length > 0 && <Table {...props} isPaused={false} isWhole />}
      <p role="status">
        Nothing more was found so far.{' '}
        <button type="button" class="outline small" onClick={props.more}>
          Look further
        </button>
      </p>
    </>
  );
}

function Space({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr aria-hidden="true" class="space">
      <td colSpan={columns} style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  );
}

function classOf({ isNumber, isExtra, isMain }: Pick<Column<never>, 'isNumber' | 'isExtra' | 'isMain'>): string {
  return [isNumber && 'number', isExtra && 'extra', isMain && 'main'].filter(Boolean).join(' ');
}
