import type { Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { allowWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import type { Balance } from '../../../../shared/books/balances.ts';
import { formatCredits, parseCredits } from '../../../../shared/values/credits.ts';
import { ApiError, invalidField, type ErrorDetail } from '../../../../shared/contract/errors.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { PLAIN_CLASS } from '../../../../shared/stores/account-settings.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { billing } from '../../../../shared/contract/schemas.ts';
import { mayUse, requireWorkspace } from '../access/access.ts';
import { answered, columnsOf, matching, present, stored, tableOf, without, type Row } from '../rows.ts';
import { readTurned } from '../../sync/accounts.ts';
import type { Alert } from '../../../../shared/contract/alerts.ts';
import { windowOf } from '../../../../shared/stores/limits.ts';

const settings = without(billing, ['usedCredits', 'availableCredits', 'heldCredits', 'expiredCredits']);

const stated = without(settings, ['totalCredits', 'spendCap']);
export type BillingRow = Row<typeof stated> & {
  shard: number;
  totalMicros: number;
  usedMicros: number;
  heldMicros: number;
  expiredMicros: number;
  /** Of begun grants that are not in `totalMicros`. */
  grantedMicros: number;
  /** The total of the account as last copied. */
  totalOfAccountMicros: number;
  /** The number of the last adjustment. */
  lastAdjustment: number;
  version: number;
  spendCapMicros: number | null;
};

/** What is used, held, granted and expired. */
export type Amounts = Pick<Balance, 'usedMicros' | 'heldMicros' | 'totalMicros' | 'expiredMicros'>;

const columns = `${columnsOf(stated)}, shard, total_micros, used_micros, held_micros, expired_micros, granted_micros,
  total_of_account_micros, last_adjustment, version, spend_cap_micros`;
/** Presented as requests set it: verifications change the rest. */
export const billings = answered(
  'billing',
  tableOf<BillingRow>('billing_records', columns, 'billing_not_found'),
  (row) => present(settings, row),
);

type NewBilling = Pick<BillingRow, 'workspaceId' | 'externalMeterId' | 'totalMicros' | 'allowOverages'> & {
  spendCapMicros?: number | null;
  limits?: BillingRow['limits'] | undefined;
  alerts?: BillingRow['alerts'] | undefined;
  externalIds?: BillingRow['externalIds'] | undefined;
};

/** Makes the billing record of a meter; undefined where it has one. Of two at once, the second waits for the first one's commit. */
export async function insertBilling(
  sql: Query,
  { teamId, tokenId }: Caller,
  record: NewBilling,
): Promise<BillingRow | undefined> {
  const values = {
    id: newId('bill'),
    teamId,
    shard: meterShard(record.workspaceId, record.externalMeterId),
    ...record,
  };
  const [row] = await sql<BillingRow[]>`
    insert into billing_records ${sql(stored(sql, values))}
    on conflict (workspace_id, external_meter_id) do nothing returning ${billings.columns(sql)}`;
  // Its first credits are a grant, too.
  if (row && row.totalMicros > 0)
    await sql`
      insert into grants (id, team_id, billing_id, class, amount_micros, priority, begins_at, before_micros, token_id)
      values (${newId('grant')}, ${teamId}, ${row.id}, ${PLAIN_CLASS}, ${row.totalMicros}, 50, ${row.createdAt.getTime()}, 0, ${tokenId})`;
  return row;
}

/** A billing record of the caller's team that its token may use; 404 for any other, as if it did not exist. */
export async function requireBilling(sql: Query, caller: Caller, billingId: string, lock = {}): Promise<BillingRow> {
  const row = await billings.require(sql, billingId, sql`team_id = ${caller.teamId}`, lock);
  if (!mayUse(caller, row.workspaceId)) throw new ApiError('billing_not_found');
  return row;
}

/** The same, locked for a change; 409 when its workspace was deleted. */
export async function lockBilling(sql: Query, caller: Caller, billingId: string): Promise<BillingRow> {
  const row = await requireBilling(sql, caller, billingId, { alone: true });
  await refuseDeletedWorkspace(sql, row);
  return row;
}

/** The billing record of a meter in a workspace that the caller's token may use; 403 or 404. */
export async function requireBillingOfMeter(
  sql: Query,
  caller: Caller,
  { workspaceId, externalMeterId }: { workspaceId: string; externalMeterId: string },
  { lock = false } = {},
): Promise<BillingRow> {
  await requireWorkspace(sql, caller, workspaceId);
  const [row] = await sql<BillingRow[]>`
    select ${billings.columns(sql)} from billing_records
    where ${matching(sql, { teamId: caller.teamId, workspaceId, externalMeterId })} ${lock ? sql`for update` : sql``}`;
  if (!row) throw new ApiError('billing_not_found');
  return row;
}

/** A billing record as `requireBilling` gives it, and its workspace as readers of its usage want it. */
export async function requireUsageOfBilling(sql: Query, caller: Caller, billingId: string) {
  const row = await requireBilling(sql, caller, billingId);
  return { row, workspace: allowWorkspace(row.workspaceId) };
}

/** Throws 409 when the workspace of a billing record was deleted: its books can be read and no longer change. */
export async function refuseDeletedWorkspace(sql: Query, { workspaceId }: BillingRow): Promise<void> {
  const [workspace] = await sql<{ deleted: boolean }[]>`
    select deleted_at is not null as deleted from workspaces where id = ${workspaceId} for key share`;
  if (workspace?.deleted) throw new ApiError('workspace_deleted');
}

/** A row as the API answers it, with its current amounts. */
export async function presentBilling(redis: ShardedRedis, row: BillingRow): Promise<Static<typeof billing>> {
  return presentBalance(row, await balanceNow(redis, row));
}

/** A row as the API answers it, by its balance where that is known; `addedMicros` is what the row has more of. */
export function presentBalance(row: BillingRow, balance: Balance | undefined, addedMicros = 0): Static<typeof billing> {
  if (balance?.totalMicros === undefined) return presentAmounts(row, balance ?? copiedAmounts(row));
  return presentAmounts(row, { ...balance, totalMicros: balance.totalMicros + addedMicros });
}

/** A row as the API answers it, with amounts that are known; what they leave out, a plain record has. */
export function presentAmounts(row: BillingRow, amounts: Amounts): Static<typeof billing> {
  const { usedMicros, heldMicros = 0, totalMicros = row.totalMicros, expiredMicros = 0 } = amounts;
  const availableMicros = totalMicros - usedMicros - heldMicros - expiredMicros;
  return present(billing, { ...row, usedMicros, heldMicros, totalMicros, expiredMicros, availableMicros });
}

/** The amount of a field in micro-credits; 400 above the maximum of a record, which the schema's pattern does not check. */
export function creditsIn(field: string, text: string): number {
  const micros = parseCredits(text);
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000, with at most six decimals';
  throw invalidField(`/${field}`, message);
}

/** The same, and 400 for none. */
export function someCreditsIn(field: string, text: string): number {
  const micros = creditsIn(field, text);
  if (micros === 0) throw invalidField(`/${field}`, 'must be above 0');
  return micros;
}

/** What is used, held, granted and expired by the copies in Postgres. */
export function copiedAmounts(row: BillingRow): Amounts {
  const { usedMicros, heldMicros, expiredMicros, totalMicros, grantedMicros, totalOfAccountMicros } = row;
  return {
    usedMicros,
    heldMicros,
    expiredMicros,
    totalMicros: Math.max(totalOfAccountMicros, totalMicros + grantedMicros),
  };
}

/**
 * The balance as Redis counts it; `undefined` while Redis is unavailable, the shard is closed, or the record has
 * not come into force there. Then the row's snapshot is the best known value.
 */
async function balanceNow(redis: ShardedRedis, row: BillingRow): Promise<Balance | undefined> {
  try {
    return await readTurned(redis, row);
  } catch (error) {
    if (error instanceof ApiError && error.errorName === 'redis_unavailable') return undefined;
    throw error;
  }
}

/** Alerts of a request as they are stored; nothing stays as it is. Throws a 400 that names a wrong field. */
export function checkedAlerts<Given extends Alert[] | null | undefined>(field: string, alerts: Given): Given {
  return (alerts && alerts.map((alert, i) => checked(alert, `${field}/${i}`, alerts.slice(0, i)))) as Given;
}

/** What an answer says besides of the alerts of a record: those that are never told, because they name no limit that it has. */
export function alertWarnings({ alerts, limits }: BillingRow): { warnings?: ErrorDetail[] } {
  const watched = new Set((limits ?? []).filter(({ per }) => !('ms' in windowOf(per))).map(({ name }) => name));
  const message = 'names no limit of the record for days, a week, a month or a year, so the alert is never told';
  const warnings = (alerts ?? []).flatMap(({ when: { limit } }, i) =>
    limit === undefined || watched.has(limit) ? [] : [{ path: `/alerts/${i}/when/limit`, message }],
  );
  return warnings.length > 0 ? { warnings } : {};
}

function checked({ name, when, topUp }: Alert, path: string, before: Alert[]): Alert {
  if (before.some((other) => other.name === name))
    throw invalidField(`/${path}/name`, 'must be unique among the alerts');
  const { usedPercent, available, limit } = when;
  if (available !== undefined) {
    if (usedPercent !== undefined || limit !== undefined) throw invalidField(`/${path}/when`, ONE_OF);
    const due = topUp === undefined ? {} : { topUp: formatCredits(someCreditsIn(`${path}/topUp`, topUp)) };
    const left = formatCredits(creditsIn(`${path}/when/available`, available));
    return { name, when: { available: left }, ...due };
  }
  if (usedPercent === undefined) throw invalidField(`/${path}/when`, ONE_OF);
  if (topUp !== undefined) throw invalidField(`/${path}/topUp`, 'must be left out but for available');
  return { name, when: limit === undefined ? { usedPercent } : { limit, usedPercent } };
}

const ONE_OF = 'must have usedPercent, available, or limit with usedPercent';
