import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { ApiError } from './errors.ts';

/** Sums of one day and one usage name of a billing record. */
export type UsageRow = { day: string; usageName: string; costMicros: number; events: number };

/** The books: usage events and their daily sums. */
export type Books = {
  client: ClickHouseClient;
  /** Used micro-credits by billing record, from all its distinct events; a record without events is missing. */
  usedCredits(billingIds: string[]): Promise<Map<string, number>>;
  ready(): Promise<boolean>;
  close(): Promise<void>;
};

/**
 * Connects over HTTP, lazily. Inserts are synchronous (newer servers turn async_insert on) and never deduplicated by
 * block, since events carry their own identity.
 */
export function connectClickHouse(url: string): Books {
  const client = createClient({
    url,
    request_timeout: 30_000,
    clickhouse_settings: {
      async_insert: 0,
      output_format_json_quote_64bit_integers: 1,
      do_not_merge_across_partitions_select_final: 1,
    },
  });
  return {
    client,
    async usedCredits(billingIds) {
      const rows = await query<{ billing_id: string; used: string }>(
        `select billing_id, toString(sum(cost_micros)) as used from usage_events final
         where billing_id in {billingIds:Array(String)} group by billing_id`,
        { billingIds },
      );
      return new Map(rows.map((row) => [row.billing_id, Number(row.used)]));
    },
    ready: async () => (await client.ping()).success,
    close: () => client.close(),
  };

  async function query<Row>(sql: string, params: Record<string, unknown>): Promise<Row[]> {
    const result = await client
      .query({ query: sql, query_params: params, format: 'JSONEachRow' })
      .catch((error: unknown) => {
        throw new ApiError('usage_away', { cause: error });
      });
    return result.json<Row>();
  }
}
