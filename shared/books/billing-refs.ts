import { keyspace } from '../stores/keyspace.ts';
import type { Query } from '../stores/postgres.ts';

/** A billing record, and where Redis keeps its balance. */
export type BillingRef = { id: string; shard: number; workspaceId: string; externalMeterId: string };

/** A page of billing records in the order of their ids, those after an id: all records, some, or all in some shards. */
export function billingRefsAfter(
  sql: Query,
  which: 'all' | { ids: string[] } | { shards: number[] },
  after: string,
  limit: number,
) {
  const page = sql`id > ${after} order by id limit ${limit}`;
  const columns = sql`id, shard, workspace_id, external_meter_id`;
  // So many of each shard, by an index: a list of shards has none in this order.
  if (typeof which === 'object' && 'shards' in which)
    return sql<BillingRef[]>`
      select ${columns} from unnest(${which.shards}::smallint[]) as of_shard (number)
      cross join lateral (select * from billing_records where shard = of_shard.number and ${page}) as of_one
      order by id limit ${limit}`;
  const wanted = which === 'all' ? sql`` : sql`id = any(${which.ids}) and`;
  return sql<BillingRef[]>`select ${columns} from billing_records where ${wanted} ${page}`;
}

/** The name in Redis of a record's settings and balance. */
export function billingKey({ shard, workspaceId, externalMeterId }: BillingRef): string {
  return keyspace.billing(shard, workspaceId, externalMeterId);
}
