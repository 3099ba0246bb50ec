import { hash } from 'node:crypto';
import { Type, type Static, type TObject, type TProperties, type TSchema } from 'typebox';
import { ApiError } from '../../../shared/contract/errors.ts';
import type { Call } from '../../../shared/contract/route.ts';
import { object, plainText } from '../../../shared/contract/schema-kinds.ts';
import { route, type AnyCall, type Definition, type NewRoute, type ParamsOf, type Services } from './route.ts';

const CURSOR = 'd3NfMDFrYWZjNnYzbmYwcXRtaGQ3ZDVyeXgyczkuM2Y5dEtxX2ExYkM0';

const MOST_ITEMS = 200;
// A page is full with this many bytes of JSON, or with one item that is larger.
const PAGE_BYTES = 1024 * 1024;
// The rows of one statement are in memory at once, and one may take 140 KB.
const ROWS_AT_ONCE = 50;
// A page that wants few of the rows ends after so many, and the cursor leads on.
const ROWS_READ = 1_000;

/** The query parameters of every paged list; a list adds its own filters. */
export const pageParameters = {
  limit: Type.Integer({
    minimum: 1,
    maximum: MOST_ITEMS,
    default: 50,
    description: 'maximum number of items in one answer',
  }),
  cursor: Type.Optional(plainText(256, '`nextCursor` of the previous answer', CURSOR)),
};

export const nextCursor = Type.Optional(plainText(256, 'where the next page starts; absent on the last one', CURSOR));

/** The items of a page, for the response of a list. */
export function pageItems<Item extends TSchema>(item: Item) {
  return Type.Array(item, { maxItems: MOST_ITEMS });
}

/** What pages of a list are made of. */
export type Rows<Row extends { id: string }, Item> = {
  /** Gives its next rows after an id, in the order of their ids. */
  read(after: string, take: number): PromiseLike<Row[]>;
  /** Makes an item of a row, or nothing of one that is not wanted. */
  present(row: Row): Item | undefined;
  /** The order, where the query chooses it. */
  order?: string | undefined;
};

type ListDefinition<Path extends string, Filters extends TProperties, Row extends { id: string }, Item> = Omit<
  Definition<Path, TObject, TSchema, TSchema>,
  'query' | 'response' | 'handle'
> & {
  query?: Filters;
  open(
    call: Call<ParamsOf<Path>, TObject<typeof pageParameters & Filters>, TSchema, Services>,
  ): Promise<Rows<Row, Item>>;
};

/** Defines a route whose answers are pages of a list, with its items under `name`; `open` finds the list, or throws. */
export function listRoute<
  const Path extends string,
  Item extends TSchema,
  Row extends { id: string },
  Filters extends TProperties = {},
>(
  path: Path,
  name: string,
  item: Item,
  { query: filters, open, ...definition }: ListDefinition<Path, Filters, Row, Static<Item>>,
): NewRoute {
  const query = object({ ...pageParameters, ...filters });
  const response = object({ [name]: pageItems(item), nextCursor });
  async function handle(call: AnyCall) {
    const rows = await open(call);
    const { params, caller, query } = call;
    const { workspaceId, customerId } = caller.portal ?? {};
    const list = [path, ...Object.values(params ?? {}), caller.teamId, workspaceId, customerId, rows.order].join();
    // Its items are what `item` says.
    return readPage(name, query, list, rows) as Promise<never>;
  }
  return route('get', path, { ...definition, query, response, handle });
}

type Page<Name extends string, Item> = Record<Name, Item[]> & { nextCursor?: string };

/**
 * Reads the page of a list that a query asks for: at most `limit` items, and fewer where they would take more than PAGE_BYTES; then
 * the cursor leads to the rest. The answer has the items under `name`. `list` names the list and its owner.
 */
export async function readPage<Name extends string, Row extends { id: string }, Item>(
  name: Name,
  { limit, cursor }: { limit: number; cursor?: string },
  list: string,
  { read, present }: Rows<Row, Item>,
): Promise<Page<Name, Item>> {
  let after = cursor === undefined ? '' : decode(cursor, list);
  let [bytes, rowsRead] = [0, 0];
  const items: Item[] = [];
  const page = (nextCursor?: string) =>
    ({ [name]: items, ...(nextCursor !== undefined && { nextCursor }) }) as Page<Name, Item>;
  for (;;) {
    // One more than the page holds: then a next one exists.
    const take = items.length < rowsRead ? ROWS_AT_ONCE : Math.min(ROWS_AT_ONCE, limit + 1 - items.length);
    const rows = await read(after, take);
    rowsRead += rows.length;
    for (const row of rows) {
      const item = present(row);
      if (item === undefined) {
        after = row.id;
        continue;
      }
      bytes += Buffer.byteLength(JSON.stringify(item)) + 1;
      const isFull = items.length === limit || (bytes > PAGE_BYTES && items.length > 0);
      if (isFull) return page(encode(after, list));
      items.push(item);
      after = row.id;
    }
    if (rows.length < take) return page();
    if (rowsRead >= ROWS_READ) return page(encode(after, list));
  }
}

// A cursor is the last id of a page and a mark of its list. Without the mark, another list's cursor would silently give a
// page from the middle, or an empty one. It is opaque, so that its content may change one day.
function encode(id: string, list: string): string {
  const mark = hash('sha256', `${list} ${id}`, 'base64url').slice(0, 12);
  return Buffer.from(`${id}.${mark}`).toString('base64url');
}

function decode(cursor: string, list: string): string {
  const [id = ''] = Buffer.from(cursor, 'base64url').toString().split('.');
  // It may be made up: the mark is no secret, and Postgres takes no NUL.
  if (encode(id, list) !== cursor || id.includes('\0')) throw new ApiError('invalid_cursor');
  return id;
}
