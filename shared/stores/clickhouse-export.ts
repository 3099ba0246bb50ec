import type { ClickHouseSettings } from '@clickhouse/client';
import { Readable } from 'node:stream';
import type { OpenExport } from '../contract/route.ts';
import { isOutOfItsMemory, type Books } from './clickhouse.ts';

export type ExportQuery = { query: string; params: Record<string, unknown>; mostBytes: number; signal: AbortSignal };

/**
 * Asks for a whole answer as bytes. ClickHouse writes it to disk before it answers (wait_end_of_query), so it fails before its
 * first byte or not at all, and is read as slowly as its reader likes.
 *
 * Each thread holds memory of its own while it merges what lies on disk: what two have no room for, one does, in small blocks.
 */
export async function openExport(books: Books, asked: ExportQuery): Promise<OpenExport> {
  try {
    return await openWith({ max_threads: 2 }, books, asked);
  } catch (error) {
    if (!isOutOfItsMemory(error)) throw error;
    return openWith({ max_threads: 1, max_block_size: '8192' }, books, asked);
  }
}

async function openWith(settings: ClickHouseSettings, { client }: Books, asked: ExportQuery): Promise<OpenExport> {
  const { query, params, mostBytes, signal } = asked;
  const form = new FormData();
  for (const [name, value] of Object.entries(params)) form.append(`param_${name}`, parameterText(value));
  // Hundreds of thousands of names do not fit into an address.
  const body = new Response(form);
  const { stream, response_headers: headers } = await client.exec({
    query,
    values: Readable.fromWeb(body.body as Parameters<typeof Readable.fromWeb>[0], { objectMode: false }),
    http_headers: { 'content-type': body.headers.get('content-type') ?? '' },
    abort_signal: signal,
    clickhouse_settings: {
      ...settings,
      wait_end_of_query: 1,
      max_result_bytes: String(mostBytes),
      result_overflow_mode: 'throw',
      output_format_csv_crlf_end_of_line: 1,
      // It holds whole groups in memory.
      output_format_parquet_row_group_size: '100000',
    },
  });
  const length = headers['content-length'];
  return { stream, bytes: typeof length === 'string' ? Number(length) : undefined };
}

/** A value as a parameter of ClickHouse's HTTP interface has it: escaped text, with quotes within a list. */
function parameterText(value: unknown): string {
  if (Array.isArray(value))
    return `[${value.map((one) => (typeof one === 'string' ? `'${escaped(one)}'` : one)).join()}]`;
  return escaped(String(value));
}

function escaped(text: string): string {
  return text
    .replaceAll('\\', '\\\\')
    .replaceAll("'", "\\'")
    .replaceAll('\t', '\\t')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r');
}
