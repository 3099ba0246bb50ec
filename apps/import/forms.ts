import { parse } from 'yaml';
import { apiGateway } from './api-gateway.ts';
import { reader, type Of } from './fields.ts';
import { kong } from './kong.ts';
import { liteLlm } from './litellm.ts';
import { fieldsOf, readCsv } from './read-csv.ts';
import { asObject, objectIn, readLines } from './read-lines.ts';
import type { Found, Read, Row } from './rows.ts';
import { unkey } from './unkey.ts';

type Fields = Record<string, unknown>;

/** How a form of file is read: as a table, or as a JSON document, which begins with a bracket. */
type Form = {
  /** The lists of a JSON document that hold keys, and those that are left out without a word. */
  lists: string[];
  unread?: string[];
  /** Tells of a document what an object of such a list, or a line of a table, holds. */
  of(document: Fields): (fields: Fields, list: string) => Found[];
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
  kong: (pieces) => readForm(pieces, kong),
  async *keys(pieces) {
    for await (const line of readLines(pieces))
      yield* rowsOf(`line ${line.number}`, () => [{ item: objectIn(line), lost: [] }]);
  },
};

/** The form that the name of a file begins with. */
export function formOf(name: string): string | undefined {
  return Object.keys(forms).find((form) => name.startsWith(form));
}

function keysOf({ read, aside, ...form }: KeyForm, now: number): Form {
  return {
    ...form,
    of: () => (fields) => {
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
    const read = form.of({});
    for await (const record of readCsv(all, form.columns, form.isAnyCase))
      yield* rowsOf(`line ${record.line}`, () => read(fieldsOf(record), ''));
    return;
  }
  const value = await documentIn(all, isJson);
  const document: Fields = Array.isArray(value) ? { '': value } : asObject(value);
  const read = form.of(document);
  let number = 0;
  for (const [list, entries] of Object.entries(document)) {
    if (!Array.isArray(entries)) continue;
    for (const entry of entries as unknown[]) {
      const place = `entry ${++number}`;
      if (form.unread?.includes(list)) continue;
      if (form.lists.includes(list)) yield* rowsOf(place, () => read(asObject(entry), list));
      else yield { place, aside: true, lost: [list] };
    }
  }
  const mark = nextOf(document);
  if (mark === undefined) return;
  const refused = `the file is one page of a list, and ${mark} names the next; import each page as a file`;
  yield { place: 'the document', refused, lost: [] };
}

const MOST_YAML = 50_000_000;
// A longer text is none any more.
const MOST_JSON = 500_000_000;

/** What a JSON or YAML document holds. It is read whole. */
async function documentIn(pieces: AsyncIterable<string>, isJson: boolean): Promise<unknown> {
  let text = '';
  for await (const piece of pieces) {
    text += piece;
    if (!isJson && text.length > MOST_YAML)
      throw new Error('the YAML is larger than 50 MB; export it with --format json');
    if (text.length > MOST_JSON) throw new Error('the JSON is larger than 500 MB; import it in parts');
  }
  try {
    const value: unknown = isJson ? JSON.parse(text) : parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Told below: what a parser says may repeat a secret.
  }
  throw new Error(`the file is ${isJson ? 'no whole JSON document' : 'neither JSON nor YAML'}`);
}

const marks = ['next', 'offset', 'NextToken', 'nextToken', 'position', 'cursor', 'hasMore', 'has_more'];

/** By what a JSON document says that another page of it follows. */
function nextOf(document: Fields): string | undefined {
  const { current_page: page, total_pages: pages } = document;
  if (typeof pages === 'number' && pages > Number(page)) return 'total_pages';
  return marks.find((name) => document[name]);
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
    yield* { [Symbol.asyncIterator]: () => iterator };
  }
  return { first: begun.trim()[0] ?? '', all: all() };
}

/** What a record holds, at its place; what is wrong with it refuses it alone. */
function* rowsOf(place: string, read: () => Found[]): Generator<Row> {
  try {
    for (const found of read()) yield { place, ...found };
  } catch (error) {
    yield { place, refused: (error as Error).message, lost: [] };
  }
}
