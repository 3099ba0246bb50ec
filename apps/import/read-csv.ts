/** A record of a CSV file: the line that it begins in, the names of the first one, and its values. */
export type CsvRecord = { line: number; names: string[]; values: string[]; wrong?: string };

const MOST_CHARACTERS = 1_000_000;
const TOO_LONG = `it has more than ${MOST_CHARACTERS} characters`;

/**
 * Reads CSV (RFC 4180) from pieces of text, one record at a time: fields in quotes may hold commas, line breaks and doubled
 * quotes. The first record names the columns, of which the file must have one of these; in any case of their letters, if it says so.
 */
export async function* readCsv(
  pieces: AsyncIterable<string>,
  needed: string[],
  isAnyCase = false,
): AsyncGenerator<CsvRecord> {
  let names: string[] | undefined;
  for await (const { line, values, wrong } of readValues(pieces)) {
    if (names) yield { line, names, values, ...(wrong !== undefined && { wrong }) };
    else {
      names = values.map((name) => (isAnyCase ? name.trim().toLowerCase() : name.trim()));
      if (!needed.some((name) => names!.includes(name)))
        throw new Error(`line ${line} must name the columns, and one of ${needed.join(', ')} among them`);
      const twice = names.find((name, i) => names!.indexOf(name) < i);
      if (twice !== undefined) throw new Error(`line ${line} names the column ${twice} twice`);
    }
  }
}

/** The values of a record by the names of their columns; throws where it has others than the first line names. */
export function fieldsOf({ names, values, wrong }: CsvRecord): Record<string, string> {
  if (wrong !== undefined) throw new Error(wrong);
  if (values.length !== names.length)
    throw new Error(`it has ${values.length} fields, and the first line names ${names.length}`);
  return Object.fromEntries(names.map((name, i) => [name, values[i]!]));
}

type Values = { line: number; values: string[]; wrong: string | undefined };

async function* readValues(pieces: AsyncIterable<string>): AsyncGenerator<Values> {
  let [values, value, line, begun, length]: [string[], string, number, number, number] = [[], '', 1, 1, 0];
  let wrong: string | undefined;
  // Within quotes; or right after a quote in them, which ends them or is the first of two.
  let state: 'plain' | 'quoted' | 'quote' = 'plain';
  for await (const piece of pieces) {
    for (const character of piece) {
      if (character === '\n') line += 1;
      // It is read up to its end, and not kept.
      if ((length += 1) > MOST_CHARACTERS) [wrong, values, value] = [TOO_LONG, [], ''];
      if (state === 'quoted') {
        if (character === '"') state = 'quote';
        else value += character;
        continue;
      }
      if (character === '"' && (state === 'quote' || value === '')) {
        if (state === 'quote') value += character;
        state = 'quoted';
        continue;
      }
      // A quote too many or too few: what follows may belong to other lines.
      if (state === 'quote' && !',\r\n'.includes(character)) wrong ??= 'it has text behind the quotes of a field';
      state = 'plain';
      if (character === ',') {
        values.push(value);
        value = '';
      } else if (character === '\n') {
        values.push(value);
        if (values.length > 1 || value !== '' || wrong !== undefined) yield { line: begun, values, wrong };
        [values, value, begun, length, wrong] = [[], '', line, 0, undefined];
      } else if (character !== '\r') value += character;
    }
  }
  if (state === 'quoted') throw new Error(`the file ends within the quotes of the record that begins in line ${begun}`);
  if (values.length > 0 || value !== '' || wrong !== undefined)
    yield { line: begun, values: [...values, value], wrong };
}
