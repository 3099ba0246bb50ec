/** A record of a CSV file by the names of its first line, and the line that it begins in. */
export type CsvRecord = { line: number; fields: Record<string, string> };

const MOST_CHARACTERS = 1_000_000;

/**
 * Reads CSV (RFC 4180) from pieces of text, one record at a time: fields in quotes may hold commas, line breaks and doubled
 * quotes. The first record names the columns.
 */
export async function* readCsv(pieces: AsyncIterable<string>): AsyncGenerator<CsvRecord> {
  let names: string[] | undefined;
  for await (const { line, values } of readValues(pieces)) {
    if (!names) names = values.map((name) => name.trim());
    else if (values.length !== names.length)
      throw new Error(`line ${line} has ${values.length} fields, and the first line names ${names.length}`);
    else yield { line, fields: Object.fromEntries(names.map((name, i) => [name, values[i]!])) };
  }
}

async function* readValues(pieces: AsyncIterable<string>): AsyncGenerator<{ line: number; values: string[] }> {
  let [values, value, line, begun, length]: [string[], string, number, number, number] = [[], '', 1, 1, 0];
  // Within quotes; or right after a quote in them, which ends them or is the first of two.
  let state: 'plain' | 'quoted' | 'quote' = 'plain';
  for await (const piece of pieces) {
    for (const character of piece) {
      if (character === '\n') line += 1;
      if ((length += 1) > MOST_CHARACTERS)
        throw new Error(`line ${begun} begins a record of more than ${MOST_CHARACTERS} characters`);
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
      state = 'plain';
      if (character === ',') {
        values.push(value);
        value = '';
      } else if (character === '\n') {
        values.push(value);
        if (values.length > 1 || value !== '') yield { line: begun, values };
        [values, value, begun, length] = [[], '', line, 0];
      } else if (character !== '\r') value += character;
    }
  }
  if (state === 'quoted') throw new Error(`the file ends within the quotes of the record that begins in line ${begun}`);
  if (values.length > 0 || value !== '') yield { line: begun, values: [...values, value] };
}
