import { parse } from 'yaml';
import { ofApiGateway, ofApiGatewayCsv } from './api-gateway.ts';
import { makeKongReader } from './kong.ts';
import { ofLiteLlm } from './litellm.ts';
import { fieldsOf, readCsv, type CsvRecord } from './read-csv.ts';
import { objectIn, readEntries, readLines, WHOLE, type Entry } from './read-json.ts';
import type { Found, Row } from './rows.ts';
import { ofUnkey } from './unkey.ts';

/** What has expired by `now` is left out. */
type Read = (pieces: AsyncIterable<string>, now: number) => AsyncGenerator<Row>;

/** How each form of file is read. docs/move-here.md says what becomes of each field. */
export const forms: Record<string, Read> = {
  unkey: (pieces, now) =>
    tableOrLists(pieces, {
      columns: ['hash', 'key', 'plaintext'],
      lists: ['', 'keys', 'data'],
      ofLine: (fields) => unlessExpired(ofUnkey(fields, now), now),
      ofObject: (fields) => unlessExpired(ofUnkey(fields, now), now),
    }),
  litellm: (pieces, now) =>
    tableOrLists(pieces, {
      columns: ['token'],
      lists: ['', 'keys', 'data'],
      ofLine: (fields) => unlessExpired(ofLiteLlm(fields, now), now),
      ofObject: (fields) => unlessExpired(ofLiteLlm(fields, now), now),
    }),
  'api-gateway': (pieces) =>
    tableOrLists(pieces, {
      columns: ['key', 'Key', 'KEY'],
      lists: ['', 'items', 'item'],
      ofLine: ofApiGatewayCsv,
      ofObject: ofApiGateway,
    }),
  kong: readKong,
  keys: (pieces) =>
    rowsOf(
      readLines(pieces),
      (entry) => ({ item: objectIn(entry), lost: [] }),
      ({ number }) => `line ${number}`,
    ),
};

/** The form that the name of a file begins with. */
export function formOf(name: string): string | undefined {
  return Object.keys(forms).find((form) => name.startsWith(form));
}

type TableOrLists = {
  columns: string[];
  /** The lists of a JSON document that hold keys. */
  lists: string[];
  ofLine(fields: Record<string, string>): Found;
  ofObject(fields: Record<string, unknown>): Found;
};

/** Reads a table, or a JSON document, which begins with a bracket. */
async function* tableOrLists(pieces: AsyncIterable<string>, form: TableOrLists): AsyncGenerator<Row> {
  const { first, all } = await begunWith(pieces);
  if (first !== '{' && first !== '[') {
    const lineOf = ({ line }: CsvRecord) => `line ${line}`;
    yield* rowsOf(readCsv(all, form.columns), (record) => form.ofLine(fieldsOf(record)), lineOf);
    return;
  }
  yield* rowsOf(
    readEntries(all),
    (entry) => {
      if (entry.list === WHOLE) return pageOf(entry);
      return form.lists.includes(entry.list) ? form.ofObject(objectIn(entry)) : { aside: true, lost: [entry.list] };
    },
    placeOf,
  );
}

const MOST_YAML = 50_000_000;

async function* readKong(pieces: AsyncIterable<string>): AsyncGenerator<Row> {
  const { first, all } = await begunWith(pieces);
  const isJson = first === '{' || first === '[';
  const kong = makeKongReader();
  for await (const entry of readEntries(isJson ? all : jsonOf(all))) {
    try {
      const found = entry.list === WHOLE ? [pageOf(entry)].map((one) => ({ entry, ...one })) : kong.read(entry);
      for (const { entry, ...one } of found) yield { place: placeOf(entry), ...one };
    } catch (error) {
      yield { place: placeOf(entry), refused: (error as Error).message, lost: [] };
    }
  }
  for (const { entry, ...one } of kong.rest()) yield { place: placeOf(entry), ...one };
}

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

const placeOf = ({ number }: Entry) => `entry ${number}`;

async function* rowsOf<Source>(
  sources: AsyncGenerator<Source>,
  read: (source: Source) => Found,
  placeOf: (source: Source) => string,
): AsyncGenerator<Row> {
  for await (const source of sources) {
    let found: Found;
    try {
      found = read(source);
    } catch (error) {
      found = { refused: (error as Error).message, lost: [] };
    }
    yield { place: placeOf(source), ...found };
  }
}

function unlessExpired(found: Found, now: number): Found {
  const expiresAt = 'item' in found ? found.item['expiresAt'] : undefined;
  return typeof expiresAt === 'number' && expiresAt <= now ? { skipped: 'it has expired', lost: [] } : found;
}
