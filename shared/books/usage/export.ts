import { inChunks } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { startTexts } from '../../values/periods.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';
import type { LiveDays } from './live-days.ts';
import { keyColumns, usageSql, type Statement, type UsageQuestion } from './sql.ts';

export const exportFormats = ['csv', 'parquet'] as const;
export type ExportFormat = (typeof exportFormats)[number];

/** A billing record with the name that its customer's meter has outside. */
export type NamedRecord = { id: string; externalMeterId: string };

/** An export names at most so many records: they are sent along with its query. */
export const MOST_NAMED_RECORDS = 200_000;
const NAMED_AT_ONCE = 10_000;

/**
 * Reads the names of a workspace's billing records, or of some of them. It may give one more than MOST_NAMED_RECORDS, which
 * tells that there are too many.
 */
export async function namedRecords(
  sql: Query,
  workspace: AllowedWorkspace,
  billingIds?: readonly string[],
): Promise<NamedRecord[]> {
  const records: NamedRecord[] = [];
  for (;;) {
    const after = records.at(-1)?.id ?? '';
    const some = await sql<NamedRecord[]>`
      select id, external_meter_id from billing_records
      where workspace_id = ${workspace} and id > ${after}
        ${billingIds ? sql`and id = any(${eachOf(sql, [...billingIds])})` : sql``}
      order by id limit ${Math.min(NAMED_AT_ONCE, MOST_NAMED_RECORDS + 1 - records.length)}`;
    records.push(...some);
    if (some.length < NAMED_AT_ONCE || records.length > MOST_NAMED_RECORDS) return records;
  }
}

/** The query of a file with the usage that is asked for. Its columns are named as the fields of an answer in JSON. */
export function exportSql(
  question: UsageQuestion,
  live: LiveDays,
  records: readonly NamedRecord[],
  format: ExportFormat,
): Statement {
  const { query, params } = usageSql(question, live);
  const keys = keyColumns(question.groupBy);
  const isByBilling = keys.includes('billing_id');
  const names = isByBilling ? namesTable(records) : undefined;
  const { starts, start } = startsOf(question, format);
  const text = format === 'csv' ? cell : (column: string) => `nullIf(${column}, '')`;
  const columns = keys.flatMap((key) => {
    if (key === 'billing_id') return [`${text('billing_id')} as billingId`, `${text('meter')} as externalMeterId`];
    return [`${key === 'other' ? key : text(key)} as ${fieldOf[key as keyof typeof fieldOf]}`];
  });
  // Sorted as it is read, and written out afterwards: what is written is twice as long.
  return {
    query: `
      select ${[start, ...columns, `${decimal('micros')} as totalBillingUsage`, 'events'].join(', ')}
      from (
        select * from (${query}) as usage
        inner join ${starts.table} as starts using (period)
        ${names ? `left join ${names.table} as names using (billing_id)` : ''}
        order by ${['period', ...keys].join(', ')})
      format ${format === 'csv' ? 'CSVWithNames' : 'Parquet'}`,
    params: { ...params, ...starts.params, ...names?.params },
  };
}

/** Micro-credits as a decimal of credits: DECIMAL(38,6). */
export function decimal(micros: string): string {
  return `(toDecimal128(${micros}, 6) / 1000000)`;
}

/**
 * Text that no spreadsheet runs as a formula: an apostrophe stands before what would begin one, at the start or behind a
 * semicolon or tab, where some begin a cell. In two steps, since what begins one may be a tab that the next one follows.
 */
export function cell(text: string): string {
  const guarded = (inner: string) =>
    `replaceRegexpAll(${inner}, '(^|[;\\\\t])([=+\\\\-@\\\\t\\\\r\\\\x{ff1d}\\\\x{ff0b}\\\\x{ff0d}\\\\x{ff20}])', '\\\\1\\'\\\\2')`;
  return `if(match(${text}, '^-?[0-9]+([.][0-9]+)?$'), ${text}, ${guarded(guarded(text))})`;
}

const fieldOf = {
  usage_name: 'usageName',
  key_id: 'apiKeyId',
  route: 'route',
  other: 'other',
  customer_id: 'customerId',
} as const;

function startsOf({ periods }: UsageQuestion, format: ExportFormat) {
  const [name, values, type] =
    format === 'csv'
      ? (['startTexts', startTexts(periods), 'Array(String)'] as const)
      : (['startQuarters', periods.quarters.slice(0, -1), 'Array(UInt32)'] as const);
  const table = `(
    select toUInt64(one.1) as period, one.2 as start_value from (
      select arrayJoin(arrayZip(range(length({${name}:${type}})), {${name}:${type}})) as one))`;
  const start = format === 'csv' ? 'start_value' : "toDateTime64(toInt64(start_value) * 900, 3, 'UTC')";
  return { starts: { table, params: { [name]: values } }, start: `${start} as start` };
}

/** A table of ids and names. ClickHouse takes so many bytes in one parameter, so there are several. */
function namesTable(records: readonly NamedRecord[]) {
  const bytes = ({ id, externalMeterId }: NamedRecord) =>
    Math.max(Buffer.byteLength(id), Buffer.byteLength(externalMeterId));
  const chunks = inChunks(records, bytes);
  const joined = (name: string) =>
    chunks.length === 0
      ? 'emptyArrayString()'
      : `arrayConcat(${chunks.map((_, i) => `{${name}${i}:Array(String)}`).join(', ')})`;
  return {
    table: `(
      select one.1 as billing_id, one.2 as meter from (
        select arrayJoin(arrayZip(${joined('ids')}, ${joined('meters')})) as one))`,
    params: Object.fromEntries(
      chunks.flatMap((some, i) => [
        [`ids${i}`, some.map(({ id }) => id)],
        [`meters${i}`, some.map(({ externalMeterId }) => externalMeterId)],
      ]),
    ) as Record<string, unknown>,
  };
}
