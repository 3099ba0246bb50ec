import { ApiError } from '../../contract/errors.ts';
import type { Books } from '../../stores/clickhouse.ts';

/** Some records of a workspace. */
export type Records = { workspaceId: string; ids: string[] };

/** The rows that the books answer, as arrays; 503 where they can't be read. */
export async function ask<Row extends unknown[]>(
  { client }: Books,
  query: string,
  query_params: Record<string, unknown>,
): Promise<Row[]> {
  try {
    return await (await client.query({ query, query_params, format: 'JSONCompactEachRow' })).json<Row>();
  } catch (error) {
    throw new ApiError('usage_unavailable', { cause: error });
  }
}
