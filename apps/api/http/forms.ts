import { PassThrough, pipeline } from 'node:stream';
import { Type } from 'typebox';
import type { ExportFormat } from '../../../shared/books/usage/export.ts';
import { ExportAnswer, TextAnswer, type OpenExport } from '../../../shared/contract/route.ts';
import { requireAnswering } from '../../../shared/stores/clickhouse.ts';
import type { Services } from './route.ts';

/** The types of an answer that is a list, as a page or as a whole file. */
export const formTypes = {
  json: 'application/json',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
} as const;
export type AnswerForm = keyof typeof formTypes;

/** A request for a list; `accepts` gives the type that it prefers of some. */
type Asked = { query: { format?: AnswerForm; bom?: '0' | '1' }; accepts(types: string[]): string | false };

const CSV_TYPE = `${formTypes.csv}; charset=utf-8; header=present`;

const allForms = Object.keys(formTypes) as AnswerForm[];

/** The form that a request asks for, by its parameter or else by its Accept header. */
export function formOf({ query: { format }, accepts }: Asked, forms = allForms): AnswerForm {
  if (format) return format;
  const type = accepts(forms.map((form) => formTypes[form]));
  return forms.find((form) => formTypes[form] === type) ?? 'json';
}

/** Rows as CSV (RFC 4180) under a header line. */
export function csv(names: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  return [names, ...rows].map(csvLine).join('');
}

/** A row as a line of CSV. */
export function csvLine(row: readonly (string | number)[]): string {
  return `${row.map(field).join(',')}\r\n`;
}

/** How a route says that it answers with CSV, too. */
export function csvForm(example: string) {
  const guarded = 'a text that a spreadsheet would run as a formula starts with an apostrophe';
  return { type: formTypes.csv, description: `RFC 4180, with a header line; ${guarded}`, example };
}

// With it, Excel reads a file as UTF-8.
const BYTE_ORDER_MARK = '\ufeff';

/** The query parameters that choose one of these forms. */
export function formParameters<Form extends AnswerForm>(...forms: Form[]) {
  return {
    format: Type.Optional(Type.Enum(forms, { description: 'replaces the Accept header' })),
    bom: Type.Optional(
      Type.Enum(['0', '1'], {
        default: '0',
        description: '1: CSV begins with a byte order mark, by which Excel knows UTF-8',
      }),
    ),
  };
}

/** Answers with data, or with their CSV where the request asks for that; browsers keep it under a name. */
export function inForm<Data>(asked: Asked, name: string, data: Data, toCsv: () => string) {
  if (formOf(asked, ['json', 'csv']) === 'json') return data;
  return new TextAnswer(CSV_TYPE, asked.query.bom === '1' ? BYTE_ORDER_MARK + toCsv() : toCsv(), {
    name: `${name}.csv`,
  });
}

/** A whole file of a form, which `open` makes once the books have shown that they answer: making it may take them minutes. */
export function fileAnswer(
  { exports, clock }: Pick<Services, 'exports' | 'clock'>,
  { name, form, bom }: { name: string; form: ExportFormat; bom: '0' | '1' | undefined },
  open: (signal: AbortSignal) => Promise<OpenExport>,
) {
  const type = form === 'csv' ? CSV_TYPE : formTypes.parquet;
  return new ExportAnswer(type, `${name}.${form}`, async (signal) => {
    await requireAnswering(exports.books, clock);
    const opened = await open(signal);
    return form === 'csv' && bom === '1' ? marked(opened) : opened;
  });
}

function marked({ stream, bytes }: OpenExport): OpenExport {
  const whole = new PassThrough();
  whole.write(BYTE_ORDER_MARK);
  // Each ends with the other, and an error reaches whoever reads.
  pipeline(stream, whole, () => {});
  return { stream: whole, bytes: bytes === undefined ? undefined : bytes + Buffer.byteLength(BYTE_ORDER_MARK) };
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
