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

// Redis may come back older: it has to hear of classes that ended since then. Those that ended longer ago it has seen.
const ENDED_FOR_DAYS = 35;
// Far fewer have not ended: 16 ends and priorities, and the periods of ten schedules that roll over.
const MOST_CLASSES = 80;

/** Loads the classes of credits of some billing records, by record; what each has of the plain class is `totalMicros`. */
async function loadClasses(
  sql: Query,
  records: { id: string; totalMicros: number }[],
): Promise<Map<string, CreditClass[]>> {
  if (records.length === 0) return new Map();
  const ids = records.map(({ id }) => id);
  const rows = await sql<ClassRow[]>`
    select * from (
      select c.*, row_number() over (partition by billing_id order by coalesce(rolls_until, ends_at, ${NEVER}) desc, ref) as place
      from grant_classes c
      where billing_id = any(${ids})
        and coalesce(rolls_until, ends_at, ${NEVER}) > extract(epoch from now() - ${`${ENDED_FOR_DAYS} days`}::interval) * 1000) c
    where place <= ${MOST_CLASSES}`;
  const pending = await sql<PendingRow[]>`
    select billing_id, class, begins_at, amount_micros from grants
    where billing_id = any(${ids}) and before_micros is null and voided_at is null order by begins_at, id`;
  const [ofRecord, pendingOf] = [
    Map.groupBy(rows, ({ billingId }) => billingId),
    Map.groupBy(pending, (one) => `${one.billingId} ${one.class}`),
  ];
  const awaited = (billingId: string, ref: string) =>
    (pendingOf.get(`${billingId} ${ref}`) ?? []).map(({ beginsAt, amountMicros }) => ({
      beginsAtMs: beginsAt,
      micros: amountMicros,
    }));
  return new Map(
    records.map(({ id, totalMicros }) => {
      const plain = { ...plainClass(totalMicros), pending: awaited(id, PLAIN_CLASS) };
      const others = (ofRecord.get(id) ?? []).map((row) => classOf(row, awaited(id, row.ref)));
      return [id, [plain, ...others.filter(({ begunMicros, pending }) => begunMicros > 0 || pending.length > 0)]];
    }),
  );
}

/** The class of what a record has bought, without an end: the only one of a record without other grants. */
export function plainClass(totalMicros: number): CreditClass {
  const never = { endsAtMs: NEVER, rollEndsAtMs: 0, rollMaxMicros: 0 };
  return {
    ref: PLAIN_CLASS,
    number: PLAIN_NUMBER,
    priority: 50,
    ...never,
    firstVersion: 0,
    begunMicros: totalMicros,
    pending: [],
  };
}

type ClassRow = {
  billingId: string;
  ref: string;
  number: number;
  priority: number;
  endsAt: number | null;
  rollsUntil: number | null;
  rollMaxMicros: number;
  firstVersion: number;
  begunMicros: number;
};

type PendingRow = { billingId: string; class: string; beginsAt: number; amountMicros: number };

function classOf(row: ClassRow, pending: CreditClass['pending']): CreditClass {
  const { ref, number, priority, endsAt, rollsUntil, rollMaxMicros, firstVersion, begunMicros } = row;
  const ends = { endsAtMs: endsAt ?? NEVER, rollEndsAtMs: rollsUntil ?? 0 };
  return { ref, number, priority, ...ends, rollMaxMicros, firstVersion, begunMicros, pending };
}

/** Alerts of a row, which the api has checked, as settings have them. */
export function packedAlerts(alerts: readonly Alert[]): PackedAlert[] {
  return alerts.map(({ name, when: { usedPercent = 0, available, limit } }) => {
    if (available !== undefined) return { name, kind: 'available', value: parseCredits(available)! };
    if (limit !== undefined) return { name, kind: 'limit', value: usedPercent, limit };
    return { name, kind: 'usedPercent', value: usedPercent };
  });
}
