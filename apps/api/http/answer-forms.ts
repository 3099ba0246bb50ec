import type { ExportFormat } from '../../../shared/books/usage/export.ts';
import { ExportAnswer, type OpenExport } from '../../../shared/contract/route.ts';
import { preferredType } from './csv.ts';

/** The types of an answer that is a list, as a page or as a whole file. */
export const formTypes = {
  json: 'application/json',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
} as const;
export type AnswerForm = keyof typeof formTypes;

/** The form that a request asks for, by its parameter or else by its Accept header. */
export function formOf(format: AnswerForm | undefined, accept: string | undefined): AnswerForm {
  if (format) return format;
  const preferred = preferredType(accept, Object.values(formTypes));
  return (Object.keys(formTypes) as AnswerForm[]).find((name) => formTypes[name] === preferred) ?? 'json';
}

/** A whole file of a form, which `open` makes. */
export function fileAnswer(name: string, form: ExportFormat, open: (signal: AbortSignal) => Promise<OpenExport>) {
  const type = form === 'csv' ? `${formTypes.csv}; charset=utf-8; header=present` : formTypes.parquet;
  return new ExportAnswer(type, `${name}.${form}`, open);
}
