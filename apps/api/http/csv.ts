import { Type } from 'typebox';
import { TextAnswer } from '../../../shared/contract/route.ts';

/** Rows as CSV (RFC 4180) under a header line. */
export function csv(names: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  return [names, ...rows].map((row) => `${row.map(field).join(',')}\r\n`).join('');
}

/** With it, Excel reads a file as UTF-8. */
export const BYTE_ORDER_MARK = '\ufeff';

/** Whether CSV is to begin with a byte order mark, in a query. */
export const bom = Type.Optional(
  Type.Enum(['0', '1'], {
    default: '0',
    description: '1: CSV begins with a byte order mark, by which Excel knows UTF-8',
  }),
);

/** CSV as an answer, which browsers keep under a name. */
export function csvAnswer(name: string, text: string, mark: '0' | '1' | undefined): TextAnswer {
  const type = 'text/csv; charset=utf-8; header=present';
  return new TextAnswer(type, mark === '1' ? BYTE_ORDER_MARK + text : text, `${name}.csv`);
}

/** Whether an Accept header prefers CSV to JSON. */
export function prefersCsv(accept: string | undefined): boolean {
  return preferredType(accept, ['application/json', 'text/csv']) === 'text/csv';
}

/** Which of some types an Accept header prefers (RFC 9110), if any; of two equal preferences the first one counts. */
export function preferredType<Type extends string>(
  accept: string | undefined,
  types: readonly Type[],
): Type | undefined {
  const asked = (accept ?? '').split(',').map((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    return { type, weight: weight === undefined ? 1 : Number(weight.slice(2)) };
  });
  const known = asked.filter(({ type, weight }) => weight > 0 && types.some((one) => one === type));
  return known.toSorted((a, b) => b.weight - a.weight)[0]?.type as Type | undefined;
}

const amount = /^-?\d+(\.\d+)?$/;

// A spreadsheet runs text that starts like a formula; an apostrophe before it keeps it text. A negative amount starts
// with a minus too, and stays a number. Where a locale separates cells by semicolons, a spreadsheet splits the line there
// and knows only quotes around a whole cell: what follows the semicolon begins a cell too.
function field(value: string | number): string {
  const text = String(value);
  if (amount.test(text)) return text;
  const guarded = text.replace(/(^|[;\t])(?=[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])/g, "$1'");
  return /[",;\t\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}
