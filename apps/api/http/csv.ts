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
