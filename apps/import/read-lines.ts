/** A line of a file, and its number. */
export type Line = { number: number; text: string };

const MOST_CHARACTERS = 1_000_000;

/** Finds the lines of a file of which each is a JSON object. */
export async function* readLines(pieces: AsyncIterable<string>): AsyncGenerator<Line> {
  let [number, rest] = [0, ''];
  for await (const piece of pieces) {
    const lines = piece.split('\n');
    for (const [i, line] of lines.entries()) {
      // Of a longer one as much as shows that it is.
      if (rest.length <= MOST_CHARACTERS) rest += line;
      if (i === lines.length - 1) break;
      number += 1;
      if (rest.trim() !== '') yield { number, text: rest };
      rest = '';
    }
  }
  if (rest.trim() !== '') yield { number: number + 1, text: rest };
}

/** The object that a line holds. The message of what it throws does not repeat the text, which may hold a secret. */
export function objectIn({ text }: Line): Record<string, unknown> {
  if (text.length > MOST_CHARACTERS) throw new Error(`it has more than ${MOST_CHARACTERS} characters`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('it is no JSON');
  }
  return asObject(value);
}

/** A value as an object, if it is one. */
export function asObject(value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new Error('it is no JSON object');
}
