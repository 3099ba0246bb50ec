/** A record of a CSV file: the line that it begins in, its values by the names of the first one, and what is wrong with it. */
export type CsvRecord = { line: number; fields: Record<string, string>; wrong?: string | undefined };

/**
 * Reads CSV (RFC 4180): fields in quotes may hold commas, line breaks and doubled quotes. The first record names the columns, of
 * which the file must have one of these; in any case of their letters, if it says so.
 */
export function* readCsv(text: string, needed: string[], isAnyCase = false): Generator<CsvRecord> {
  let names: string[] | undefined;
  let line = 1;
  for (let at = 0; at < text.length;) {
    const begun = line;
    const { values, next, wrong } = recordAt(text, at);
    line += text.slice(at, next).split('\n').length - 1;
    at = next;
    if (values.length === 1 && values[0] === '') continue;
    if (names) {
      const count = `it has ${values.length} fields, and the first line names ${names.length}`;
      const fields = Object.fromEntries(names.map((name, i) => [name, values[i] ?? '']));
      yield { line: begun, fields, wrong: wrong ?? (values.length === names.length ? undefined : count) };
    } else {
      names = values.map((name) => (isAnyCase ? name.trim().toLowerCase() : name.trim()));
      if (!needed.some((name) => names!.includes(name)))
        throw new Error(`line ${begun} must name the columns, and one of ${needed.join(', ')} among them`);
      const twice = names.find((name, i) => names!.indexOf(name) < i);
      if (twice !== undefined) throw new Error(`line ${begun} names the column ${twice} twice`);
    }
  }
}

/** The values of the record that begins there, and where the next one begins. */
function recordAt(text: string, begin: number) {
  const values: string[] = [];
  let wrong: string | undefined;
  for (let at = begin; ;) {
    const isQuoted = text[at] === '"';
    let value = '';
    if (isQuoted) {
      const first = at + 1;
      // A quote right behind another is one of the value.
      do at = text.indexOf('"', at + 1) + 1;
      while (at > 0 && text[at] === '"');
      if (at === 0) return { values, next: text.length, wrong: 'the file ends within its quotes' };
      value = text.slice(first, at - 1).replaceAll('""', '"');
    }
    const end = endOf(text, at);
    const plain = text.slice(at, end).replace(/\r$/, '');
    // A quote too many or too few: what follows may belong to other lines.
    if (isQuoted && plain !== '') wrong ??= 'it has text behind the quotes of a field';
    values.push(value + plain);
    if (text[end] !== ',') return { values, next: end + 1, wrong };
    at = end + 1;
  }
}

const separator = /[,\n]/g;

function endOf(text: string, from: number): number {
  separator.lastIndex = from;
  return separator.exec(text)?.index ?? text.length;
}
