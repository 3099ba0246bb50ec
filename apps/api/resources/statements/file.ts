import type { Statement as Sql } from '../../../../shared/books/usage/sql.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { inChunks } from '../../../../shared/stores/clickhouse.ts';
import { lineNames, type StatementLine } from './statements.ts';

/** A file has at most so many lines: they are sent along with its query. */
export const MOST_LINES = 200_000;
// ClickHouse takes 1,000 parameters of a query.
const MOST_CHUNKS = 900;

/**
 * The query of a file with these lines of text, which ClickHouse writes to its disk as it does each export. It is none of ClickHouse's own
 * CSV: the file of a closed month stays the same bytes, whatever a later version makes of CSV.
 */
export function textFileSql(lines: readonly string[]): Sql {
  const { list, params } = listOf(lines);
  return { query: `select arrayJoin(${list}) as line format LineAsString`, params };
}

/** The query of a Parquet file with lines of statements, of which each is the JSON of its fields. */
export function parquetFileSql(lines: readonly string[]): Sql {
  const { list, params } = listOf(lines);
  const columns = lineNames.map((name, i) => `${columnOf(name, `fields[${i + 1}]`)} as ${name}`);
  return {
    query: `
      select ${columns.join(', ')}
      from (select JSONExtract(arrayJoin(${list}), 'Array(String)') as fields) format Parquet`,
    params,
  };
}

function listOf(texts: readonly string[]): { list: string; params: Sql['params'] } {
  const chunks = inChunks(texts);
  if (chunks.length > MOST_CHUNKS) throw new ApiError('statements_too_many');
  const joined = chunks.map((_, i) => `{lines${i}:Array(String)}`).join(', ');
  return {
    list: chunks.length === 0 ? 'emptyArrayString()' : `arrayConcat(${joined})`,
    params: Object.fromEntries(chunks.map((some, i) => [`lines${i}`, some])),
  };
}

const TEXTS: (keyof StatementLine)[] = ['billingId', 'externalMeterId', 'timezone', 'proof'];

function columnOf(name: keyof StatementLine, field: string): string {
  if (TEXTS.includes(name)) return field;
  // A Date would be written as a number.
  if (name === 'from' || name === 'to') return `toDate32(${field})`;
  if (name === 'events') return `toUInt64(${field})`;
  return name === 'closed' ? `(${field} = 'true')::Bool` : `toDecimal64(${field}, 6)`;
}
