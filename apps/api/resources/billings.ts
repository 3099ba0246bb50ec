import type { Static } from 'typebox';
import type { Caller } from '../../../shared/contract/caller.ts';
import { readBalances } from '../../../shared/books/balances.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { isId } from '../../../shared/values/ids.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import type { billing } from '../../../shared/contract/schemas.ts';
import { mayUse } from './access.ts';

export type BillingRow = {
  id: string;
  workspaceId: string;
  externalMeterId: string;
  shard: number;
  totalMicros: number;
  usedMicros: number;
  allowOverages: boolean;
  spendCapMicros: number | null;
  createdAt: Date;
  updatedAt: Date;
};

const USED_WITHIN_MS = 250;

/** The columns of a BillingRow, for a select or a returning. */
export const billingColumns = (sql: Query) => sql`
  id, workspace_id, external_meter_id, shard, total_micros, used_micros, allow_overages, spend_cap_micros,
  created_at, updated_at`;

/** A billing record of the caller's team that its token may use; 404 for any other, as if it did not exist. */
export async function requireBilling(
  sql: Query,
  caller: Caller,
  billingId: string,
  { lock = false } = {},
): Promise<BillingRow> {
  const [row] = isId(billingId)
    ? await sql<BillingRow[]>`
        select ${billingColumns(sql)} from billing_records where id = ${billingId} and team_id = ${caller.teamId}
        ${lock ? sql`for update` : sql``}`
    : [];
  if (!row || !mayUse(caller, row.workspaceId)) throw new ApiError('billing_not_found');
  return row;
}

/** Throws 409 when the workspace of a billing record was deleted: its books can be read and no longer change. */
export async function refuseDeletedWorkspace(sql: Query, { workspaceId }: BillingRow): Promise<void> {
  const [workspace] = await sql<{ deleted: boolean }[]>`
    select deleted_at is not null as deleted from workspaces where id = ${workspaceId} for key share`;
  if (workspace?.deleted) throw new ApiError('workspace_deleted');
}

/** A row as the API answers it, with its current used credits. */
export async function presentBilling(redis: ShardedRedis, row: BillingRow): Promise<Static<typeof billing>> {
  const usedMicros = (await usedNow(redis, row)) ?? row.usedMicros;
  return {
    ...billingSettings(row),
    usedCredits: formatCredits(usedMicros),
    availableCredits: formatCredits(row.totalMicros - usedMicros),
    heldCredits: '0',
    expiredCredits: '0',
  };
}

/** The part of a row that requests set; verifications change the rest. */
export function billingSettings(row: BillingRow) {
  return {
    id: row.id,
    workspaceId: row.workspaceId,
    externalMeterId: row.externalMeterId,
    totalCredits: formatCredits(row.totalMicros),
    allowOverages: row.allowOverages,
    ...(row.spendCapMicros !== null && { spendCap: formatCredits(row.spendCapMicros) }),
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  };
}

/** The amount of a field in micro-credits; 400 above the maximum of a record, which the schema's pattern does not check. */
export function creditsIn(field: string, text: string): number {
  const micros = parseCredits(text);
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000, with at most six decimals';
  throw new ApiError('invalid_request', { details: [{ path: `/${field}`, message }] });
}

/**
 * Used micro-credits as Redis counts them; `undefined` while Redis is unavailable, the shard is closed, or the record has
 * not come into force there. Then the row's snapshot is the best known value.
 */
async function usedNow(redis: ShardedRedis, row: BillingRow): Promise<number | undefined> {
  try {
    const [balance] = await readBalances(redis, [row], USED_WITHIN_MS);
    return balance?.usedMicros;
  } catch (error) {
    if (error instanceof ApiError && error.errorName === 'redis_unavailable') return undefined;
    throw error;
  }
}
