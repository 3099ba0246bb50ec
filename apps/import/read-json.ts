/** The text of an object in a list of a JSON document: the name of the list ('' where the document is one), and its number. */
export type Entry = { list: string; number: number; text: string };

const MOST_CHARACTERS = 1_000_000;
/** The name under which the fields of the document itself come, last: lists and objects in it are null. */
export const WHOLE = '(document)';

/** Finds the objects in the lists of a JSON document, from pieces of text and one at a time, however large the document is. */
export async function* readEntries(pieces: AsyncIterable<string>): AsyncGenerator<Entry> {
  const scanner = makeScanner();
  let number = 0;
  for await (const piece of pieces)
    for (const { list, text } of scanner.scan(piece)) yield { list, number: (number += 1), text };
  if (!scanner.isWhole()) throw new Error('the file is no whole JSON document');
  if (scanner.own().startsWith('{')) yield { list: WHOLE, number, text: scanner.own() };
}

/** Finds the lines of a file of which each is a JSON object. */
export async function* readLines(pieces: AsyncIterable<string>): AsyncGenerator<Entry> {
  let [number, rest] = [0, ''];
  for await (const piece of pieces) {
    const lines = piece.split('\n');
    for (const [i, line] of lines.entries()) {
      // Of a longer one as much as shows that it is.
      if (rest.length <= MOST_CHARACTERS) rest += line;
      if (i === lines.length - 1) break;
      number += 1;
      if (rest.trim() !== '') yield { list: '', number, text: rest };
      rest = '';
    }
  }
  if (rest.trim() !== '') yield { list: '', number: number + 1, text: rest };
}

/** The object that an entry holds. The message of what it throws does not repeat the text, which may hold a secret. */
export function objectIn({ text }: Entry): Record<string, unknown> {
  if (text.length > MOST_CHARACTERS) throw new Error(`it has more than ${MOST_CHARACTERS} characters`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('it is no JSON');
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new Error('it is no JSON object');
}

/** Finds where objects of lists begin and end. A list is the document itself, or a field of it. */
function makeScanner() {
  let [depth, key, list, opened] = [0, '', '', false];
  let [inString, escaped] = [false, false];
  // The depth inside the list; the object of it that has begun.
  let inside: number | undefined;
  let object: string | undefined;
  // The document without what is in its lists and objects.
  let own = '';

  function* scan(piece: string): Generator<{ list: string; text: string }> {
    let start = 0;
    for (let at = 0; at < piece.length; at++) {
      const character = piece[at]!;
      if (depth <= 1 && own.length <= MOST_CHARACTERS) own += ownOf(character);
      if (inString) {
        if (escaped) escaped = false;
        else if (character === '\\') escaped = true;
        else if (character === '"') inString = false;
        if (inString && depth === 1 && inside === undefined && key.length < 100) key += character;
        continue;
      }
      if (character === '"') {
        inString = true;
        if (depth === 1) key = '';
      } else if (character === '{' || character === '[') {
        opened = true;
        if (depth === inside && character === '{') [object, start] = ['', at];
        if (inside === undefined && character === '[' && depth <= 1) {
          [inside, list] = [depth + 1, depth === 0 ? '' : key];
        }
        depth += 1;
      } else if (character === '}' || character === ']') {
        depth -= 1;
        if (object !== undefined && depth === inside) {
          keep(piece.slice(start, at + 1));
          yield { list, text: object };
          object = undefined;
        } else if (inside !== undefined && depth < inside) inside = undefined;
      }
    }
    if (object !== undefined) keep(piece.slice(start));
  }

  // A list or object in it begins; where it ends, the depth is another one.
  function ownOf(character: string): string {
    return !inString && depth === 1 && (character === '{' || character === '[') ? 'null' : character;
  }

  // Of a longer one as much as shows that it is.
  function keep(text: string): void {
    if (object!.length <= MOST_CHARACTERS) object += text;
  }

  return { scan, isWhole: () => opened && depth === 0 && !inString, own: () => own.trim() };
}
