import { ClickHouseError } from '@clickhouse/client';
import { ApiError } from '../../contract/errors.ts';
import type { OpenExport } from '../../contract/route.ts';
import { openExport } from '../../stores/clickhouse-export.ts';
import { isOutOfItsMemory, readRows, type Books } from '../../stores/clickhouse.ts';
import type { Query } from '../../stores/postgres.ts';
import { daysTouched } from '../../values/periods.ts';
import { liveDays, type LiveDays } from './live-days.ts';
import {
  eventsSql,
  keyFields,
  readsEvents,
  usageSql,
  type KeyField,
  type Statement,
  type UsageQuestion,
} from './sql.ts';

// Every reader of usage asks here; sql.ts alone writes the queries.

/** Usage of a period, by its number, and of one of each group that was asked for. */
export type Usage = {
  period: number;
  /** Absent: of keys without a billing record. */
  billingId?: string;
  usageName?: string;
  apiKeyId?: string;
  route?: string;
  customerId?: string;
  /** Routes beyond the largest. */
  other?: boolean;
  micros: bigint;
  events: number;
};

/** Rows in the order of period and groups: those after a row, and how many at most. */
export type UsagePage = {
  after?: UsagePosition | undefined;
  limit: number;
  /** An answer of many more groups is refused while they are summed. */
  mostGroups?: number;
};
/** The number of a row's period, and its groups as the books have them. */
export type UsagePosition = [period: number, ...keys: (string | boolean)[]];

export type UsageStores = { sql: Query; books: Books };

// ClickHouse's numbers of errors.
const TOO_MANY_ROWS = '158';
const TIMEOUT_EXCEEDED = '159';
const TOO_MANY_BYTES = '396';

/** Reads usage. `nowMs` tells which days may still be open. */
export async function readUsage(
  { sql, books }: UsageStores,
  question: UsageQuestion,
  { after, limit, mostGroups, nowMs }: UsagePage & { nowMs: number },
): Promise<Usage[]> {
  const live = await liveDaysOf(sql, question, nowMs);
  const { query, params } = usageSql(question, live);
  // The stored days of one record are a few blocks: a second thread takes longer to begin than to read them.
  const isShort = question.filters?.billingIds?.length === 1 && !readsEvents(question, live);
  const order = ['period', ...keyFields(question.groupBy)];
  const types = order.map((name) => (name === 'period' ? 'UInt64' : name === 'other' ? 'Bool' : 'String'));
  const [placed, values] = [after?.map((_, i) => `{after${i}:${types[i]}}`), after ?? []];
  const answer = books.client.query({
    query: `
      select * from (${query})
      ${placed ? `where (${order.join(', ')}) > (${placed.join(', ')})` : ''}
      order by ${order.join(', ')} limit {limit:UInt32}`,
    query_params: { ...params, limit, ...Object.fromEntries(values.map((value, i) => [`after${i}`, value])) },
    format: 'JSONEachRow',
    clickhouse_settings: {
      ...(isShort && { max_threads: 1 }),
      ...(mostGroups !== undefined && {
        max_rows_to_group_by: String(mostGroups + 1),
        group_by_overflow_mode: 'throw' as const,
      }),
    },
  });
  const rows = await booksAnswer(async () => (await answer).json<UsageRow>());
  return rows.map(readRow);
}

/** How many events a question that only they can answer has to read, of the records that it names or of all. */
export async function countEvents({ books }: Pick<UsageStores, 'books'>, question: UsageQuestion): Promise<number> {
  const { query, params } = eventsSql(question);
  const [row] = await booksAnswer(() => readRows<[events: string]>(books, query, params));
  return Number(row![0]);
}

/** The place of a row in the order of its answer. */
export function positionOf(row: Usage, { groupBy }: Pick<UsageQuestion, 'groupBy'>): UsagePosition {
  return [row.period, ...keyFields(groupBy).map((field) => row[field] ?? (field === 'other' ? false : ''))];
}

/** The days that a question's answer sums from the events. Read them before the sums. */
export function liveDaysOf(sql: Query, question: UsageQuestion, nowMs: number): Promise<LiveDays> {
  const { workspace, periods, filters } = question;
  return liveDays(sql, { workspace, billingIds: filters?.billingIds, ...daysTouched(periods), nowMs });
}

/** Gives what the books answer, or the error that tells a client what to do. */
export async function booksAnswer<Result>(
  work: () => Promise<Result>,
  outOfMemory: 'usage_too_slow' | 'export_too_large' = 'usage_too_slow',
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof ClickHouseError ? error.code : undefined;
    if (code === TOO_MANY_ROWS) throw new ApiError('usage_too_large');
    if (code === TOO_MANY_BYTES) throw new ApiError('export_too_large');
    if (code === TIMEOUT_EXCEEDED) throw new ApiError('usage_too_slow', { cause: error });
    if (isOutOfItsMemory(error)) throw new ApiError(outOfMemory, { cause: error });
    throw new ApiError('usage_unavailable', { cause: error });
  }
}

/** Opens a file that the books write. One that takes more than they give it is an error that says how to ask for less. */
export function openBooksFile(
  { books, mostBytes }: { books: Books; mostBytes: number },
  { query, params }: Statement,
  signal: AbortSignal,
): Promise<OpenExport> {
  return booksAnswer(() => openExport(books, { query, params, mostBytes, signal }), 'export_too_large');
}

type UsageRow = Partial<Record<KeyField, string | boolean>> & Record<'period' | 'micros' | 'events', string>;

/** A usage name may be empty; of all others that says that there is none. */
function readRow({ period, micros, events, ...keys }: UsageRow): Usage {
  const known = Object.entries(keys).filter(([field, value]) => value || field === 'usageName');
  return { period: Number(period), ...Object.fromEntries(known), micros: BigInt(micros), events: Number(events) };
}
