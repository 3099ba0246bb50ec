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
  const wanted =
    which === 'all' ? sql`` : 'ids' in which ? sql`id = any(${which.ids}) and` : sql`shard = any(${which.shards}) and`;
  return sql<BillingRef[]>`
    select id, shard, workspace_id, external_meter_id from billing_records
    where ${wanted} id > ${after}
    order by id limit ${limit}`;
}

/** The name in Redis of a record's settings and balance. */
export function billingKey({ shard, workspaceId, externalMeterId }: BillingRef): string {
  return keyspace.billing(shard, workspaceId, externalMeterId);
}
