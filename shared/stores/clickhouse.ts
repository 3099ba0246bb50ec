import {
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
  type ClickHouseClient,
  type ClickHouseSettings,
} from '@clickhouse/client';
import { ApiError } from '../contract/errors.ts';

/** Sums of one day and one usage name of a billing record. */
export type UsageRow = { day: string; usageName: string; costMicros: number; events: number };

/** Days of a record, both ends included. `liveDays`, and all days from `liveFrom` on, are summed from the events. */
export type UsageQuery = {
  billingId: string;
  from: string;
  to: string;
  liveDays: string[];
  liveFrom: string;
  /** Rows after these are left out; an answer that would have many more is refused (40020). */
  mostRows: number;
  usageName?: string;
};

/** The books: usage events and their daily sums. */
export type Books = {
  client: ClickHouseClient;
  /** Usage by day and usage name: stored sums for days that are over, sums of the events for live ones. */
  dailyUsage(wanted: UsageQuery): Promise<UsageRow[]>;
  ready(): Promise<boolean>;
  close(): Promise<void>;
};

/**
 * Makes the replicas of a cluster as exact as one server: an insert counts once most of them have it, and a read sees all
 * that counted. Without it a day could be summed on a replica that lags.
 */
const onCluster = { insert_quorum: 'auto', insert_quorum_parallel: 0, select_sequential_consistency: '1' } as const;

// ClickHouse refuses a parameter of more than 131,072 bytes (http_max_field_value_size). Half of it leaves room for
// escaping, which at most doubles a text.
const CHUNK_BYTES = 64_000;
// ClickHouse's number of the error.
const TOO_MANY_ROWS = '158';
// Quotes and comma.
const BYTES_AROUND_VALUE = 3;

/** Splits a list so that ClickHouse takes each chunk as one query parameter. */
export function inChunks<Value>(
  values: Iterable<Value>,
  bytesOf: (value: Value) => number = (value) => Buffer.byteLength(String(value)),
): Value[][] {
  const chunks: Value[][] = [];
  let left = 0;
  for (const value of values) {
    const bytes = bytesOf(value) + BYTES_AROUND_VALUE;
    if (bytes > left || chunks.length === 0) {
      chunks.push([]);
      left = CHUNK_BYTES;
    }
    chunks.at(-1)!.push(value);
    left -= bytes;
  }
  return chunks;
}

/**
 * What a query may take of ClickHouse. From half of its memory on it sorts and groups on disk, and one that needs more all
 * the same fails alone, not its neighbours with it.
 */
export type BooksLimits = ClickHouseSettings;

/** Limits of the jobs, which work on many records at a time. */
export const JOB_LIMITS: BooksLimits = withinMemory(1_000_000_000);

/**
 * Limits of what a request asks for: whoever holds a token chooses how often. The answer is worth nothing once the deadline is
 * over or the client gone; only a read-only query ends with its client.
 */
export const REQUEST_LIMITS: BooksLimits = {
  ...withinMemory(256_000_000),
  max_threads: 4,
  max_execution_time: 8,
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
};

function withinMemory(bytes: number): BooksLimits {
  const onDisk = String(bytes / 2);
  return {
    max_memory_usage: String(bytes),
    max_bytes_before_external_group_by: onDisk,
    max_bytes_before_external_sort: onDisk,
  };
}

/** Connects over HTTP, lazily. Inserts are synchronous (newer servers turn async_insert on). */
export function connectClickHouse(url: string, cluster = '', limits: BooksLimits = JOB_LIMITS): Books {
  const client = createClient({
    url,
    request_timeout: 30_000,
    // A thousand ids do not fit into a URL (node:http takes 16 KB of it): long parameters go into the body.
    use_multipart_params_auto: true,
    // The client's own log lines go to the console and hold parameters. A failure is logged where it is handled.
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: {
      async_insert: 0,
      output_format_json_quote_64bit_integers: 1,
      do_not_merge_across_partitions_select_final: 1,
      ...(cluster !== '' && onCluster),
      ...limits,
    },
  });
  return {
    client,
    async dailyUsage({ usageName, ...wanted }) {
      const named = usageName === undefined ? '' : 'and usage_name = {usageName:String}';
      const rows = await query<{ of_day: string; name: string; cost: string; number: string }>(
        `select toString(day) as of_day, name, toString(cost) as cost, toString(number) as number from (
           select day, usage_name as name, cost_micros as cost, events as number from usage_daily final
           where billing_id = {billingId:String} and day between {from:Date} and {to:Date} ${named}
             and day < {liveFrom:Date} and day not in {liveDays:Array(Date)}
           union all
           select day, usage_name, sum(cost_micros), countIf(kind = 'verification') from usage_events final
           where billing_id = {billingId:String} and day between {from:Date} and {to:Date} ${named}
             and kind in ('verification', 'adjustment')
             and (day >= {liveFrom:Date} or day in {liveDays:Array(Date)})
           group by day, usage_name
         ) order by day, name limit {mostRows:UInt32}`,
        { ...wanted, ...(usageName !== undefined && { usageName }) },
        // Each group is a row of the answer, which is refused when it has more.
        { max_rows_to_group_by: String(wanted.mostRows), group_by_overflow_mode: 'throw' },
      );
      return rows.map((row) => ({
        day: row.of_day,
        usageName: row.name,
        costMicros: Number(row.cost),
        events: Number(row.number),
      }));
    },
    ready: async () => (await client.ping()).success,
    close: () => client.close(),
  };

  async function query<Row>(
    sql: string,
    query_params: Record<string, unknown>,
    clickhouse_settings: ClickHouseSettings,
  ): Promise<Row[]> {
    try {
      const result = await client.query({ query: sql, query_params, format: 'JSONEachRow', clickhouse_settings });
      return await result.json<Row>();
    } catch (error) {
      if (error instanceof ClickHouseError && error.code === TOO_MANY_ROWS) throw new ApiError('usage_too_large');
      throw new ApiError('usage_unavailable', { cause: error });
    }
  }
}
