import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Logger } from '../../../../shared/runtime/log.ts';
import type { Metrics } from '../../../../shared/runtime/metrics.ts';
import { isPostgresConnectionError, type Sql, type Transaction } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { mayChange, recordNow } from '../../sync/remove-deleted.ts';
import type { BillingRow } from '../billings/billings.ts';
import { recordAudit } from '../record.ts';
import { readHeard } from './heard.ts';
import { makePeriods, notGrantedLines, schedules, type ScheduleRow } from './schedules.ts';

const SCHEDULES_AT_ONCE = 100;
// Of a statement that took too long, as one does whose record somebody else has locked.
const QUERY_CANCELED = '57014';
const START: Position = { nextAt: 0, id: '' };

/** What work that is due for records needs. */
export type Stores = { sql: Sql; redis: ShardedRedis; metrics: Metrics; log: Logger };

/**
 * Makes the periods of grant schedules that are due, two before they begin. Each schedule is a transaction: the lock of its record, and
 * of its row, lets one process make a period once, and one that dies has made all of it or nothing. Those that could not be made are
 * still due.
 */
export async function makeDuePeriods(stores: Stores, stopping: AbortSignal): Promise<void> {
  const { sql, redis } = stores;
  for (let after = START; ;) {
    const due = await dueAfter(sql, after);
    if (due.length === 0) return;
    if (!(await mayChange(sql, redis))) return;
    for (const one of due) {
      // Each may wait for its record until Postgres gives it up.
      if (stopping.aborted) return;
      await make(stores, one);
    }
    if (due.length < SCHEDULES_AT_ONCE) return;
    after = due.at(-1)!;
  }
}

async function make(stores: Stores, one: Due): Promise<void> {
  const work = async (tx: Transaction) => stores.metrics.periodsNotGranted.inc(await makeDue(tx, stores.redis, one));
  await tryDue(stores, { scheduleId: one.id }, work);
}

/** Does what is due for a record in a transaction; where it can't be done now, it is still due. */
export async function tryDue(
  { sql, log }: Stores,
  what: Record<string, string>,
  work: (tx: Transaction) => Promise<void>,
): Promise<void> {
  try {
    await sql.begin(work);
  } catch (error) {
    // A change of its record is on its way to Redis.
    if (error instanceof ApiError && error.errorName === 'redis_unavailable') return;
    // It would fail all others too.
    if (isPostgresConnectionError(error) && (error as { code?: unknown }).code !== QUERY_CANCELED) throw error;
    log.warn({ error, ...what }, 'what is due for a billing record can not be done now; trying again');
  }
}

/** How far a round came. */
type Position = { nextAt: number; id: string };
type Due = Position & { billingId: string; teamId: string };

/** Whether a schedule is due. */
export function isPeriodDue(sql: Sql) {
  return sql`exists (select from grant_schedules where next_at <= extract(epoch from now()) * 1000 and deleted_at is null)`;
}

/** A page of the schedules that are due, those that have been due the longest first. */
function dueAfter(sql: Sql, { nextAt, id }: Position) {
  return sql<Due[]>`
    select id, billing_id, team_id, next_at from grant_schedules
    where next_at <= extract(epoch from now()) * 1000 and (next_at, id) > (${nextAt}, ${id}) and deleted_at is null
    order by next_at, id limit ${SCHEDULES_AT_ONCE}`;
}

/** Gives how many periods have no grant, since it would pass what a record may have. */
async function makeDue(tx: Transaction, redis: ShardedRedis, { id, billingId, teamId }: Due): Promise<number> {
  const [record] = await tx<[BillingRow & { deleted: boolean; nowMs: number }]>`
    select b.*, w.deleted_at is not null as deleted, floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
    from billing_records b join workspaces w on w.id = b.workspace_id where b.id = ${billingId} for update of b`;
  const [schedule] = await tx<(ScheduleRow & { tokenId: string; requestId: string })[]>`
    select ${schedules.columns(tx)}, token_id, request_id from grant_schedules
    where id = ${id} and deleted_at is null and next_at <= ${record.nowMs} for update`;
  if (!schedule) return 0;
  if (record.deleted) {
    await tx`update grant_schedules set next_at = null where id = ${id}`;
    return 0;
  }
  // What is set aside, or damaged, may not have heard of a void.
  if (!(await readHeard(redis, record))) throw new ApiError('redis_unavailable');
  const maker = { teamId, tokenId: schedule.tokenId, requestId: schedule.requestId };
  const notGranted = await makePeriods(tx, schedule, maker, record.nowMs, { limited: false });
  const origin = { teamId, tokenId: null, operation: 'grant schedule', requestId: null };
  await recordAudit(tx, origin, notGrantedLines(schedule, notGranted));
  await recordNow(tx, 'billing', [record]);
  return notGranted.length;
}
