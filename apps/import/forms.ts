import { parse } from 'yaml';
import { apiGateway } from './api-gateway.ts';
import { asObject, objectIn, reader, type Of } from './fields.ts';
import { kong } from './kong.ts';
import { liteLlm } from './litellm.ts';
import { readCsv } from './read-csv.ts';
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
export const forms: Record<string, (text: string, now: number) => Generator<Row>> = {
  unkey: (text, now) => readForm(text, keysOf(unkey, now)),
  litellm: (text, now) => readForm(text, keysOf(liteLlm, now)),
  'api-gateway': (text, now) => readForm(text, keysOf(apiGateway, now)),
  kong: (text) => readForm(text, kong),
  *keys(text) {
    for (const [i, line] of text.split('\n').entries())
      if (line.trim() !== '') yield* rowsOf(`line ${i + 1}`, () => [{ item: objectIn('it', line), lost: [] }]);
  },
};

// A longer text is none any more.
const MOST_BYTES = 500_000_000;

/** The text of a file, without its byte order mark. What is not UTF-8 is refused: names would be damaged. */
export function textIn(bytes: Buffer): string {
  if (bytes.length > MOST_BYTES) throw new Error('the file is larger than 500 MB; import it in parts');
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error('the file is not UTF-8; convert it, such as by iconv -f latin1 -t utf-8');
  }
}

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

function* readForm(text: string, form: Form): Generator<Row> {
  const isJson = /^\s*[{[]/.test(text);
  if (!isJson && form.columns) {
    const read = form.of({});
    for (const { line, fields, wrong } of readCsv(text, form.columns, form.isAnyCase))
      yield* rowsOf(`line ${line}`, () => (wrong === undefined ? read(fields, '') : [{ refused: wrong, lost: [] }]));
    return;
  }
  const value = documentIn(text, isJson);
  const document: Fields = Array.isArray(value) ? { '': value } : asObject('the file', value);
  const read = form.of(document);
  let number = 0;
  for (const [list, entries] of Object.entries(document)) {
    if (!Array.isArray(entries)) continue;
    for (const entry of entries as unknown[]) {
      const place = `entry ${++number}`;
      if (form.unread?.includes(list)) continue;
      if (form.lists.includes(list)) yield* rowsOf(place, () => read(asObject('it', entry), list));
      else yield { place, aside: true, lost: [list] };
    }
  }
  const mark = nextOf(document);
  if (mark === undefined) return;
  const refused = `the file is one page of a list, and ${mark} names the next; import each page as a file`;
  yield { place: 'the document', refused, lost: [] };
}

const MOST_YAML = 50_000_000;

function documentIn(text: string, isJson: boolean): unknown {
  if (!isJson && text.length > MOST_YAML)
    throw new Error('the YAML is larger than 50 MB; export it with --format json');
  try {
    return isJson ? JSON.parse(text) : parse(text);
  } catch {
    // What a parser says may repeat a secret.
    throw new Error(`the file is ${isJson ? 'no whole JSON document' : 'neither JSON nor YAML'}`);
  }
}

const marks = ['next', 'offset', 'NextToken', 'nextToken', 'position', 'cursor', 'hasMore', 'has_more'];

/** By what a JSON document says that another page of it follows. */
function nextOf(document: Fields): string | undefined {
  const { current_page: page, total_pages: pages } = document;
  if (typeof pages === 'number' && pages > Number(page)) return 'total_pages';
  return marks.find((name) => document[name]);
}

/** What a record holds, at its place; what is wrong with it refuses it alone. */
function* rowsOf(place: string, read: () => Found[]): Generator<Row> {
  try {
    for (const found of read()) yield { place, ...found };
  } catch (error) {
    yield { place, refused: (error as Error).message, lost: [] };
  }
}
