import type { BillingRef } from '../../../../shared/books/billing-refs.ts';
import { isIn } from '../../../../shared/books/statements/closing.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { exportFormats } from '../../../../shared/books/usage/export.ts';
import { openBooksFile } from '../../../../shared/books/usage/query.ts';
import { spanParameters } from '../customer-billing/statement.ts';
import { csv, csvLine, fileAnswer, formOf, formParameters, formTypes } from '../../http/forms.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import type { Services } from '../../http/route.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { MOST_LINES, parquetFileSql, textFileSql } from '../../resources/statements/file.ts';
import { findSpan, readStatements, type FoundSpan } from '../../resources/statements/spans.ts';
import {
  fieldsOf,
  lineNames,
  presentLine,
  statementLine,
  type StatementLine,
} from '../../resources/statements/statements.ts';
import { route } from '../../http/route.ts';

// A statement that is not stored costs several questions to the books for each so many.
const RECORDS_AT_ONCE = 200;

export const listStatements = route('get', '/api/v1/statements', {
  summary: 'List the statements of a workspace, one line for each record',
  description:
    'The file that finance imports, as CSV, as Parquet, or in pages of JSON. That of a closed month is the same, byte for byte, ever after.',
  permission: 'billing:read',
  alsoPermission: 'usage:read',
  query: object({
    ...pageParameters,
    workspaceId: id('workspace'),
    ...spanParameters,
    ...formParameters('json', ...exportFormats),
  }),
  response: object({ statements: pageItems(statementLine), nextCursor }),
  alternative: {
    type: formTypes.csv,
    description: 'RFC 4180, with a header line, all records in the order of their ids',
    example: csv(lineNames, []),
  },
  file: {
    type: formTypes.parquet,
    description: 'the same lines: days as DATE, amounts as DECIMAL(18,6)',
  },
  errors: [
    'workspace_forbidden',
    'statements_too_many',
    'export_too_large',
    'too_many_exports',
    'redis_unavailable',
    'usage_unavailable',
  ],

  async handle({ query, caller, ...services }) {
    const { sql } = services;
    await requireWorkspace(sql, caller, query.workspaceId);
    const found = await findSpan(sql, query.workspaceId, query);
    const read = (after: string, take: number) => readLines(services, query.workspaceId, found, { after, take });
    const form = formOf({ query, ...services });
    if (form !== 'json') {
      await refuseTooManyLines(sql, query.workspaceId);
      return fileAnswer(services, { name: 'statements', form, bom: query.bom }, async (signal) => {
        const lines = await readAll(read, form === 'csv' ? csvText : JSON.stringify, signal);
        const file = form === 'csv' ? textFileSql([csvText(lineNames), ...lines]) : parquetFileSql(lines);
        return openBooksFile(services.exports, file, signal);
      });
    }
    const { span } = found;
    const list = `statements of ${query.workspaceId} from ${span.startMs} to ${span.endMs}`;
    return readPage('statements', query, list, { read, present: ({ line }) => line });
  },
});

type Row = { id: string; line: StatementLine };
type Read = (after: string, take: number) => Promise<Row[]>;

async function refuseTooManyLines(sql: Services['sql'], workspaceId: string): Promise<void> {
  const beyond =
    await sql`select from billing_records where workspace_id = ${workspaceId} offset ${MOST_LINES} limit 1`;
  if (beyond.length > 0) throw new ApiError('statements_too_many');
}

/** A line of the file, which ClickHouse ends with a line break. */
function csvText(fields: readonly string[]): string {
  return csvLine(fields).slice(0, -1);
}

/**
 * The file of a closed month has the lines that were stored; any other one has those of all records that there are. Each page becomes text
 * when it is read: that of 200,000 lines at once would hold up all that the process does for seconds.
 */
async function readAll(read: Read, textOf: (fields: string[]) => string, signal: AbortSignal): Promise<string[]> {
  const lines: string[] = [];
  for (let after = ''; ;) {
    signal.throwIfAborted();
    const some = await read(after, RECORDS_AT_ONCE);
    for (const { line } of some) lines.push(textOf(fieldsOf(line)));
    if (some.length < RECORDS_AT_ONCE) return lines;
    after = some.at(-1)!.id;
  }
}

async function readLines(
  { sql, redis, books, clock }: Pick<Services, 'sql' | 'redis' | 'books' | 'clock'>,
  workspaceId: string,
  found: FoundSpan,
  { after, take }: { after: string; take: number },
): Promise<Row[]> {
  const { span, closing } = found;
  const records = await sql<BillingRef[]>`
    select b.id, b.shard, b.workspace_id, b.external_meter_id from billing_records b
    where b.workspace_id = ${workspaceId} and b.id > ${after}
      ${
        closing?.closedAt
          ? sql`and exists (select from statement_lines l where l.workspace_id = ${workspaceId} and month = ${closing.month}
                            and billing_id = b.id)`
          : sql`and ${isIn(sql, span)}`
      }
    order by b.id limit ${take}`;
  const wanted = { workspaceId, billings: records, found, nowMs: clock.now(), patienceMs: 0 };
  const read = await readStatements({ sql, redis, books }, wanted);
  return records.map((one) => ({ id: one.id, line: presentLine(read.get(one.id)!, one.externalMeterId, span) }));
}
