import { addAbortListener } from 'node:events';
import {
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
  type ClickHouseClient,
  type ClickHouseSettings,
} from '@clickhouse/client';
import { ApiError } from '../contract/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** Conditions on events: those that `/usage` bills, and those of them that it counts. */
export const IS_USAGE = `kind in ('verification', 'adjustment', 'capture', 'correction')`;
export const IS_COUNTED = `kind in ('verification', 'capture')`;
/** Lines that take back what a verification used; they have its time. */
export const IS_CANCELLED = `kind = 'correction' and detail = 'cancelled'`;

/** The books: usage events and their daily sums. */
export type Books = ReturnType<typeof connectClickHouse>;

/**
 * Makes the replicas of a cluster as exact as one server: an insert counts once most of them have it, and a read sees all
 * that counted. Without it a day could be summed on a replica that lags.
 */
export const exactOnCluster = {
  insert_quorum: 'auto',
  insert_quorum_parallel: 0,
  select_sequential_consistency: '1',
} as const;

// ClickHouse refuses a parameter of more than 131,072 bytes (http_max_field_value_size). Half of it leaves room for
// escaping, which at most doubles a text.
const CHUNK_BYTES = 64_000;
// Quotes and comma.
const BYTES_AROUND_VALUE = 3;
// Each query of a job may take a large part of ClickHouse's memory: more of them wait.
const CONNECTIONS_OF_JOBS = 10;
// No request waits for a connection, since it has had its turn. (Where a query that was aborted had waited for one, the client
// would end that connection under another's query.)
const CONNECTIONS_OF_REQUESTS = 100;
const PING_WITHIN_MS = 5_000;
// ClickHouse's number of an error.
const MEMORY_LIMIT_EXCEEDED = '241';

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

/** Limits of the jobs, which work on many records at a time. */
export const JOB_LIMITS: ClickHouseSettings = withinMemory(1_000_000_000);

/**
 * Limits of what a request asks for: whoever holds a token chooses how often. The answer is worth nothing once the deadline is
 * over or the client gone; only a read-only query ends with its client.
 */
export const REQUEST_LIMITS: ClickHouseSettings = {
  ...withinMemory(256_000_000),
  max_threads: 4,
  max_execution_time: 8,
  readonly: '2',
  cancel_http_readonly_queries_on_client_close: 1,
};

/** Limits of an export. It may take as long as a large one does, and sorts on disk what it sorts. */
export const EXPORT_LIMITS: ClickHouseSettings = {
  ...REQUEST_LIMITS,
  ...withinMemory(550_000_000),
  max_execution_time: 600,
};

/** The same books for one who waits until `over`: then the queries under way end, and no other begins. */
export function booksUntil(books: Books, over: AbortSignal): Books {
  const query: ClickHouseClient['query'] = async (params) => {
    // The client only listens for it, and only until the answer begins.
    over.throwIfAborted();
    const answer = await books.client.query({ ...params, abort_signal: over }).catch((error: unknown) => {
      // What it answers is for whoever asked; that it does not answer is the same for all.
      throw error instanceof ClickHouseError ? error : new ApiError('usage_unavailable', { cause: error });
    });
    addAbortListener(over, () => answer.close());
    return answer;
  };
  return { ...books, client: Object.create(books.client, { query: { value: query } }) as ClickHouseClient };
}

/** The rows that a query answers, each as an array of its columns. */
export async function readRows<Row extends unknown[]>(
  { client }: Pick<Books, 'client'>,
  query: string,
  query_params: Record<string, unknown> = {},
  clickhouse_settings: ClickHouseSettings = {},
): Promise<Row[]> {
  const answer = await client.query({ query, query_params, clickhouse_settings, format: 'JSONCompactEachRow' });
  return answer.json<Row>();
}

// From a part of its memory on a query sorts and groups on disk; one that needs more all the same fails alone.
function withinMemory(bytes: number): ClickHouseSettings {
  const onDisk = String(bytes / 4);
  return {
    max_memory_usage: String(bytes),
    max_bytes_before_external_group_by: onDisk,
    max_bytes_before_external_sort: onDisk,
    // Shares of the server's memory: with them, the bytes above count for nothing.
    max_bytes_ratio_before_external_group_by: 0,
    max_bytes_ratio_before_external_sort: 0,
    // A block of each file is in memory while they are merged.
    prefer_external_sort_block_bytes: '1000000',
  };
}

/** Throws unless ClickHouse answers at all: one that hangs takes a connection and says nothing, for as long as it may. */
export async function requireAnswering({ client }: Books, clock: Clock): Promise<void> {
  const hung = new AbortController();
  const { success } = await withTimeout(
    clock,
    PING_WITHIN_MS,
    client.ping({ select: false, abort_signal: hung.signal }),
    () => {
      hung.abort();
      return new ApiError('usage_unavailable');
    },
  );
  if (!success) throw new ApiError('usage_unavailable');
}

/** Turns an error that ClickHouse answered into a 503; leaves every other error as it is. */
export function asBooksUnavailable(error: unknown): unknown {
  return error instanceof ClickHouseError ? new ApiError('usage_unavailable', { cause: error }) : error;
}

/** Whether a query had more to hold than it may. What the whole server or its user has too much of is no fault of the query. */
export function isOutOfItsMemory(error: unknown): boolean {
  return (
    error instanceof ClickHouseError &&
    error.code === MEMORY_LIMIT_EXCEEDED &&
    /query memory limit|\(for query\)/i.test(error.message)
  );
}

/** Connects over HTTP, lazily. Inserts are synchronous (newer servers turn async_insert on). */
export function connectClickHouse(
  url: string,
  cluster = '',
  limits: ClickHouseSettings = JOB_LIMITS,
  requestTimeoutMs = 30_000,
) {
  const client = createClient({
    url,
    request_timeout: requestTimeoutMs,
    max_open_connections: limits === JOB_LIMITS ? CONNECTIONS_OF_JOBS : CONNECTIONS_OF_REQUESTS,
    // A thousand ids do not fit into a URL (node:http takes 16 KB of it): long parameters go into the body.
    use_multipart_params_auto: true,
    // The client's own log lines go to the console and hold parameters. A failure is logged where it is handled.
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: {
      async_insert: 0,
      output_format_json_quote_64bit_integers: 1,
      do_not_merge_across_partitions_select_final: 1,
      ...(cluster !== '' && exactOnCluster),
      ...limits,
    },
  });
  return {
    client,
    ready: async () => (await client.ping()).success,
    close: () => client.close(),
  };
}
