import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { packRecord } from '../../../../shared/stores/records.ts';
import { creditLimit, formatCredits } from '../../../../shared/values/credits.ts';
import { batchesById } from '../batches.ts';
import type { Entry, Selection } from '../change.ts';

/** Loads the settings of billing records. */
export async function* loadBillings(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<BillingRow>(
    (after, limit) => sql`
    select id, workspace_id, external_meter_id, shard, total_micros, allow_overages, spend_cap_micros, version, created_at, updated_at
    from billing_records
    where ${'ids' in selection ? sql`id = any(${selection.ids})` : sql`shard = ${selection.shard}`} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const records of batches) yield records.map(entryOf);
}

type BillingRow = {
  id: string;
  workspaceId: string;
  externalMeterId: string;
  shard: number;
  totalMicros: number;
  allowOverages: boolean;
  spendCapMicros: number | null;
  version: number;
  createdAt: Date;
  updatedAt: Date;
};

function entryOf(record: BillingRow): Entry {
  return {
    kind: 'billing',
    id: record.id,
    shard: record.shard,
    key: keyspace.billing(record.shard, record.workspaceId, record.externalMeterId),
    field: 's',
    value: packRecord('billing', {
      version: record.version,
      billingId: record.id,
      limitMicros: creditLimit(record),
      answerPart: answerPart(record),
    }),
    lifetimeSeconds: 0,
  };
}

// The part of a verification's answer that changes only with the record's settings, as ready-made JSON.
function answerPart(record: BillingRow): string {
  const part = {
    id: record.id,
    workspaceId: record.workspaceId,
    externalMeterId: record.externalMeterId,
    totalCredits: formatCredits(record.totalMicros),
    allowOverages: record.allowOverages,
    ...(record.spendCapMicros !== null && { spendCap: formatCredits(record.spendCapMicros) }),
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
  };
  return JSON.stringify(part).slice(1, -1);
}
