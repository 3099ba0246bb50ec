import { parse } from 'yaml';
import { apiGateway } from './api-gateway.ts';
import { reader, type Of } from './fields.ts';
import { makeKong } from './kong.ts';
import { liteLlm } from './litellm.ts';
import { fieldsOf, readCsv } from './read-csv.ts';
import { objectIn, readEntries, readLines, WHOLE, type Entry } from './read-json.ts';
import type { Found, Read, Row } from './rows.ts';
import { unkey } from './unkey.ts';

type Fields = Record<string, unknown>;
type Placed = Found & { place?: string };

/** How a form of file is read: as a table, or as a JSON document, which begins with a bracket. */
type Form = {
  /** The lists of a JSON document that hold keys, and those that are left out without a word. */
  lists: string[];
  unread?: string[];
  /** What an object of such a list holds. */
  of(fields: Fields, list: string, place: string): Placed[];
  /** What was kept for the end. */
  rest?(): Placed[];
  /** A table has one of these columns. A form without tables may be YAML. */
  columns?: string[];
  isAnyCase?: boolean;
};

/** A form whose records are keys. */
type KeyForm = Pick<Form, 'columns' | 'isAnyCase' | 'lists'> & {
  /** Fields that say nothing of a key: ids and times of the other system. */
  aside: string[];
  read(of: Of, now: number): Read;
};

/** How each form of file is read; what has expired by `now` is left out. docs/move-here.md says what becomes of each field. */
export const forms: Record<string, (pieces: AsyncIterable<string>, now: number) => AsyncGenerator<Row>> = {
  unkey: (pieces, now) => readForm(pieces, keysOf(unkey, now)),
  litellm: (pieces, now) => readForm(pieces, keysOf(liteLlm, now)),
  'api-gateway': (pieces, now) => readForm(pieces, keysOf(apiGateway, now)),
  kong: (pieces) => readForm(pieces, makeKong()),
  keys: (pieces) =>
    rowsOf(
      readLines(pieces),
      (entry) => [{ item: objectIn(entry), lost: [] }],
      ({ number }) => `line ${number}`,
    ),
};

/** The form that the name of a file begins with. */
export function formOf(name: string): string | undefined {
  return Object.keys(forms).find((form) => name.startsWith(form));
}

function keysOf({ read, aside, ...form }: KeyForm, now: number): Form {
  return {
    ...form,
    of(fields) {
      const of = reader(fields);
      const { lost = [], ...found } = read(of, now);
      if (!('item' in found)) return [{ ...found, lost }];
      const { expiresAt } = found.item;
      if (typeof expiresAt === 'number' && expiresAt <= now) return [{ skipped: 'it has expired', lost: [] }];
      return [{ ...found, lost: [...lost, ...of.others(aside)] }];
    },
  };
}

async function* readForm(pieces: AsyncIterable<string>, form: Form): AsyncGenerator<Row> {
  const { first, all } = await begunWith(pieces);
  const isJson = first === '{' || first === '[';
  if (!isJson && form.columns) {
    yield* rowsOf(
      readCsv(all, form.columns, form.isAnyCase),
      (record) => form.of(fieldsOf(record), '', ''),
      ({ line }) => `line ${line}`,
    );
    return;
  }
  const placeOf = ({ number }: Entry) => `entry ${number}`;
  const read = (entry: Entry): Placed[] => {
    const { list } = entry;
    if (list === WHOLE) return [pageOf(entry), ...(form.rest?.() ?? [])];
    if (form.lists.includes(list)) return form.of(objectIn(entry), list, placeOf(entry));
    return form.unread?.includes(list) ? [] : [{ aside: true, lost: [list] }];
  };
  yield* rowsOf(readEntries(isJson ? all : jsonOf(all)), read, placeOf);
}

const MOST_YAML = 50_000_000;

/** A YAML document as JSON. It is read whole, so a large one has to be exported as JSON. */
async function* jsonOf(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let text = '';
  for await (const piece of pieces) {
    if ((text += piece).length > MOST_YAML)
      throw new Error('the YAML is larger than 50 MB; export it with --format json');
  }
  let value: unknown;
  try {
    value = parse(text);
  } catch {
    // What the parser says may repeat a secret.
    throw new Error('the file is neither JSON nor YAML');
  }
  if (typeof value !== 'object' || value === null) throw new Error('the file is neither JSON nor YAML');
  yield JSON.stringify(value);
}

const marks = ['next', 'offset', 'NextToken', 'nextToken', 'position', 'cursor', 'hasMore', 'has_more'];

/** What a JSON document says of itself: whether another page follows. */
function pageOf(entry: Entry): Found {
  const fields = objectIn(entry);
  const { current_page: page, total_pages: pages } = fields;
  const mark =
    marks.find((name) => fields[name]) ?? (typeof pages === 'number' && pages > Number(page) && 'total_pages');
  if (!mark) return { aside: true, lost: [] };
  return {
    refused: `the file is one page of a list, and ${mark} names the next; import each page as a file`,
    lost: [],
  };
}

/** The first character that is no blank, and the text from its beginning. */
async function begunWith(pieces: AsyncIterable<string>): Promise<{ first: string; all: AsyncGenerator<string> }> {
  const iterator = pieces[Symbol.asyncIterator]();
  let begun = '';
  while (begun.trim() === '') {
    const next = await iterator.next();
    if (next.done) break;
    begun += next.value;
  }
  async function* all() {
    yield begun;
    for (;;) {
      const next = await iterator.next();
      if (next.done) return;
      yield next.value;
    }
  }
  return { first: begun.trim()[0] ?? '', all: all() };
}

async function* rowsOf<Source>(
  sources: AsyncGenerator<Source>,
  read: (source: Source) => Placed[],
  placeOf: (source: Source) => string,
): AsyncGenerator<Row> {
  for await (const source of sources) {
    const place = placeOf(source);
    try {
      for (const found of read(source)) yield { place, ...found };
    } catch (error) {
      yield { place, refused: (error as Error).message, lost: [] };
    }
  }
}
