import {
  packAccountSettings,
  type CreditClass,
  NEVER,
  PLAIN_CLASS,
  PLAIN_NUMBER,
  type PackedAlert,
} from '../../../../shared/stores/account-settings.ts';
import type { Limit } from '../../../../shared/contract/limits.ts';
import type { Alert } from '../../../../shared/contract/alerts.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { withOwnLimits } from '../../../../shared/stores/limits.ts';
import { packRecord } from '../../../../shared/stores/records.ts';
import { creditLimit, formatCredits, parseCredits } from '../../../../shared/values/credits.ts';
import { batchesById } from '../batches.ts';
import type { Entry, Selection } from '../change.ts';

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
    const withClasses = records.filter(({ hasClasses }) => hasClasses);
    const classes = await loadClasses(
      sql,
      withClasses.map(({ id }) => id),
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

// Redis may come back older: it has to hear of classes that ended since then. Those that ended longer ago it has seen.
const ENDED_FOR_DAYS = 35;
// Far fewer have not ended: 16 ends and priorities, and the periods of ten schedules that roll over.
const MOST_CLASSES = 80;

/** Loads the classes of credits of some billing records, by record, the plain one first. One without credits is left out. */
async function loadClasses(sql: Query, ids: string[]): Promise<Map<string, CreditClass[]>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<(CreditClass & { billingId: string })[]>`
    select c.*, p.pending
    from (
      select id as billing_id, ${PLAIN_CLASS}::text as ref, ${PLAIN_NUMBER}::int as number, 50 as priority, ${NEVER}::bigint as ends_at_ms,
             0 as roll_ends_at_ms, 0 as roll_max_micros, 0 as first_version, total_micros as begun_micros, 0 as place
      from billing_records where id = any(${ids})
      union all
      select billing_id, ref, number, priority, coalesce(ends_at, ${NEVER}), coalesce(rolls_until, 0), roll_max_micros, first_version,
             begun_micros, row_number() over (partition by billing_id order by coalesce(rolls_until, ends_at, ${NEVER}) desc, ref)
      from grant_classes
      where billing_id = any(${ids})
        and coalesce(rolls_until, ends_at, ${NEVER}) > extract(epoch from now() - ${`${ENDED_FOR_DAYS} days`}::interval) * 1000) c
    cross join lateral (
      select coalesce(json_agg(json_build_object('beginsAtMs', begins_at, 'micros', amount_micros) order by begins_at, id), '[]') as pending
      from grants g
      where g.billing_id = c.billing_id and g.class = c.ref and g.before_micros is null and g.voided_at is null) p
    where place = 0 or (place <= ${MOST_CLASSES} and (begun_micros > 0 or json_array_length(p.pending) > 0))
    order by billing_id, place`;
  return Map.groupBy(rows, ({ billingId }) => billingId);
}

/** The class of what a record has bought, without an end: the only one of a record without other grants. */
export function plainClass(totalMicros: number): CreditClass {
  const named = { ref: PLAIN_CLASS, number: PLAIN_NUMBER, priority: 50, firstVersion: 0 };
  return { ...named, endsAtMs: NEVER, rollEndsAtMs: 0, rollMaxMicros: 0, begunMicros: totalMicros, pending: [] };
}

/** Alerts of a row, which the api has checked, as settings have them. */
export function packedAlerts(alerts: readonly Alert[]): PackedAlert[] {
  return alerts.map(({ name, when: { usedPercent = 0, available, limit } }) => {
    if (available !== undefined) return { name, kind: 'available', value: parseCredits(available)! };
    if (limit !== undefined) return { name, kind: 'limit', value: usedPercent, limit };
    return { name, kind: 'usedPercent', value: usedPercent };
  });
}
