import { PassThrough, pipeline } from 'node:stream';
import type { ExportFormat } from '../../../shared/books/usage/export.ts';
import { ExportAnswer, type OpenExport } from '../../../shared/contract/route.ts';
import { requireAnswering } from '../../../shared/stores/clickhouse.ts';
import { BYTE_ORDER_MARK } from './csv.ts';
import type { Services } from './route.ts';

/** The types of an answer that is a list, as a page or as a whole file. */
export const formTypes = {
  json: 'application/json',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
} as const;
export type AnswerForm = keyof typeof formTypes;

const allForms = Object.keys(formTypes) as AnswerForm[];

/** The form that a request asks for, by its parameter or else by its Accept header (RFC 9110); of two equal preferences the first one counts. */
export function formOf(format: AnswerForm | undefined, accept = '', forms = allForms): AnswerForm {
  if (format) return format;
  const asked = accept.split(',').map((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    return { form: forms.find((form) => formTypes[form] === type), weight: Number(weight?.slice(2) ?? 1) };
  });
  const known = asked.filter(({ form, weight }) => weight > 0 && form);
  return known.toSorted((a, b) => b.weight - a.weight)[0]?.form ?? 'json';
}

/** A whole file of a form, which `open` makes once the books have shown that they answer: making it may take them minutes. */
export function fileAnswer(
  { exports, clock }: Pick<Services, 'exports' | 'clock'>,
  { name, form, bom }: { name: string; form: ExportFormat; bom: '0' | '1' | undefined },
  open: (signal: AbortSignal) => Promise<OpenExport>,
) {
  const type = form === 'csv' ? `${formTypes.csv}; charset=utf-8; header=present` : formTypes.parquet;
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
