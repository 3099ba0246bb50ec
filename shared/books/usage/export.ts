import { inChunks } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { cutPeriods, startTexts, wholeStarts } from '../../values/periods.ts';
import type { AllowedWorkspace } from './allowed-workspace.ts';
import type { LiveDays } from './live-days.ts';
import { keyFields, usageSql, type Statement, type UsageQuestion } from './sql.ts';

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
  const keys = keyFields(question.groupBy);
  const text = format === 'csv' ? cell : (column: string) => `nullIf(${column}, '')`;
  const names = keys.includes('billingId') ? namesOf(records) : undefined;
  const { start, starts } = startsOf(question, format);
  const partial = 'toBool(has({cut:Array(UInt32)}, period)) as partial';
  const columns = keys.flatMap((key) => {
    const column = key === 'other' ? key : `${text(key)} as ${key}`;
    return key === 'billingId' ? [column, `${text('meter')} as externalMeterId`] : [column];
  });
  // Sorted as it is read, and written out afterwards: what is written is twice as long. A join would not keep the order.
  return {
    query: `
      select ${[start, ...columns, `${decimal('micros')} as totalBillingUsage`, 'events', partial].join(', ')}
      from (
        select *${names ? `, ${names.meter} as meter` : ''}
        from (select * from (${query}) order by ${['period', ...keys].join(', ')}))
      format ${format === 'csv' ? 'CSVWithNames' : 'Parquet'}`,
    params: { ...params, ...starts, cut: cutPeriods(question.periods), ...names?.params },
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
  const begins = '(^|[;\\\\t])([=+\\\\-@\\\\t\\\\r\\\\x{ff1d}\\\\x{ff0b}\\\\x{ff0d}\\\\x{ff20}])';
  const guarded = (inner: string) => `replaceRegexpAll(${inner}, '${begins}', '\\\\1\\'\\\\2')`;
  const isFormula = `match(${text}, '${begins}') and not match(${text}, '^-?[0-9]+([.][0-9]+)?$')`;
  return `if(${isFormula}, ${guarded(guarded(text))}, ${text})`;
}

function startsOf({ periods }: UsageQuestion, format: ExportFormat) {
  if (format === 'csv')
    return { start: '{startTexts:Array(String)}[period + 1] as start', starts: { startTexts: startTexts(periods) } };
  const quarter = '{startQuarters:Array(Int64)}[period + 1]';
  return {
    start: `toDateTime64(${quarter} * 900, 3, 'UTC') as start`,
    starts: { startQuarters: wholeStarts(periods) },
  };
}

/** The name of a row's record, from lists of ids and of names. ClickHouse takes so many bytes in one parameter, so each is in pieces. */
function namesOf(records: readonly NamedRecord[]) {
  const bytes = ({ id, externalMeterId }: NamedRecord) =>
    Math.max(Buffer.byteLength(id), Buffer.byteLength(externalMeterId));
  const chunks = inChunks(records, bytes);
  const joined = (name: string) => `arrayConcat(${chunks.map((_, i) => `{${name}${i}:Array(String)}`).join(', ')})`;
  return {
    meter: chunks.length === 0 ? `''` : `transform(billingId, ${joined('ids')}, ${joined('meters')}, '')`,
    params: Object.fromEntries(
      chunks.flatMap((some, i) => [
        [`ids${i}`, some.map(({ id }) => id)],
        [`meters${i}`, some.map(({ externalMeterId }) => externalMeterId)],
      ]),
    ) as Record<string, unknown>,
  };
}
