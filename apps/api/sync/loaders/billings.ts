import { packAccountSettings, type CreditClass } from '../../../../shared/stores/account-settings.ts';
import type { Limit } from '../../../../shared/contract/limits.ts';
import type { Alert } from '../../../../shared/contract/alerts.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { withOwnLimits } from '../../../../shared/stores/limits.ts';
import { packRecord } from '../../../../shared/stores/records.ts';
import { creditLimit, formatCredits } from '../../../../shared/values/credits.ts';
import { batchesById } from '../batches.ts';
import type { Entry, Selection } from '../change.ts';
import { packedAlerts } from './alerts.ts';
import { loadClasses, plainClass } from './classes.ts';

/** Loads the settings of billing records. */
export async function* loadBillings(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<BillingRow>(
    (after, limit) => sql`
    select id, workspace_id, external_meter_id, shard, total_micros, allow_overages, spend_cap_micros, has_classes, limits, alerts, version,
           created_at, updated_at
    from billing_records
    where ${'ids' in selection ? sql`id = any(${selection.ids})` : sql`shard = ${selection.shard}`} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const records of batches) {
    const classes = await loadClasses(
      sql,
      records.filter(({ hasClasses }) => hasClasses),
    );
    yield records.map((record) => entryOf(record, classes.get(record.id)));
  }
}

type BillingRow = {
  id: string;
  workspaceId: string;
  externalMeterId: string;
  shard: number;
  totalMicros: number;
  allowOverages: boolean;
  spendCapMicros: number | null;
  hasClasses: boolean;
  limits: Limit[] | null;
  alerts: Alert[] | null;
  version: number;
  createdAt: Date;
  updatedAt: Date;
};

function entryOf(record: BillingRow, classes: CreditClass[] | undefined): Entry {
  return {
    kind: 'billing',
    id: record.id,
    shard: record.shard,
    key: keyspace.billing(record.shard, record.workspaceId, record.externalMeterId),
    field: 's',
    value: settingsOf(record, classes),
    lifetimeSeconds: 0,
  };
}

function settingsOf(record: BillingRow, ofGrants: CreditClass[] | undefined): string {
  const { version, id: billingId, totalMicros, limits, alerts } = record;
  const settings = { version, billingId, answerPart: answerPart(record) };
  const classes = ofGrants ?? (alerts ? [plainClass(totalMicros)] : undefined);
  if (classes) return packAccountSettings({ ...settings, limits }, classes, alerts ? packedAlerts(alerts) : undefined);
  return packRecord('billing', { ...settings, limitMicros: withOwnLimits(creditLimit(record), limits) });
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
