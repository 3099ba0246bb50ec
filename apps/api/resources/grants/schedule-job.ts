import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Logger } from '../../../../shared/runtime/log.ts';
import type { Metrics } from '../../../../shared/runtime/metrics.ts';
import { isPostgresConnectionError, type Sql, type Transaction } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { mayChange, recordNow } from '../../sync/remove-deleted.ts';
import type { BillingRow } from '../billings/billings.ts';
import { recordAudit } from '../record.ts';
import { readHeard } from '../../sync/accounts.ts';
import { makePeriods, notGrantedLines, schedules, type ScheduleRow } from './schedules.ts';

const SCHEDULES_AT_ONCE = 100;
// Of a statement that took too long, as one does whose record somebody else has locked.
const QUERY_CANCELED = '57014';

/** What work that is due for records needs. */
export type Stores = { sql: Sql; redis: ShardedRedis; metrics: Metrics; log: Logger };

/**
 * Makes the periods of grant schedules that are due, two before they begin. Each schedule is a transaction: the lock of its record, and
 * of its row, lets one process make a period once, and one that dies has made all of it or nothing.
 */
export async function makeDuePeriods(stores: Stores, stopping: AbortSignal): Promise<void> {
  const { sql, redis, metrics } = stores;
  const turn: Turn<Due> = {
    what: 'scheduleId',
    after: { at: 0, id: '' },
    read: (after) => dueAfter(sql, after),
    do: async (tx, one) => metrics.periodsNotGranted.inc(await makeDue(tx, redis, one)),
  };
  await doDue(stores, async () => [turn], stopping);
}

/** How far a round came: what its work is ordered by, and the id of the row that is due. */
export type Place = { at: number; id: string };
/** A page of work after another; `do` does one piece of it in a transaction. `what`: by which name the log has the id of what is due. */
export type Turn<Due extends Place> = {
  what: 'scheduleId' | 'billingId';
  after: Place;
  read(after: Place): Promise<Due[]>;
  do(tx: Transaction, one: Due): Promise<void>;
};

/**
 * Does what is due for records, some of each of the turns until none has any; false where it has to stop before. A round comes to each
 * once: what could not be done is still due.
 */
export async function doDue<Due extends Place>(
  { sql, redis, log }: Stores,
  turns: () => Promise<Turn<Due>[]>,
  stopping: AbortSignal,
): Promise<boolean> {
  for (let hasDone = true; hasDone;) {
    hasDone = false;
    for (const turn of await turns()) {
      const due = await turn.read(turn.after);
      if (due.length === 0) continue;
      if (!(await mayChange(sql, redis))) return false;
      for (const one of due) {
        // Each may wait for its record until Postgres gives it up.
        if (stopping.aborted) return false;
        await sql
          .begin((tx) => turn.do(tx, one))
          .catch((error: unknown) => refuseOther(error, { [turn.what]: one.id }, log));
      }
      turn.after = due.at(-1)!;
      hasDone = true;
    }
  }
  return true;
}

/** Throws an error again that would fail all other work too. */
function refuseOther(error: unknown, due: Record<string, string>, log: Logger): void {
  // A change of its record is on its way to Redis.
  if (error instanceof ApiError && error.errorName === 'redis_unavailable') return;
  if (isPostgresConnectionError(error) && (error as { code?: unknown }).code !== QUERY_CANCELED) throw error;
  log.warn({ error, ...due }, 'what is due for a billing record can not be done now; trying again');
}

type Due = Place & { billingId: string; teamId: string };

/** Whether a schedule is due. */
export function isPeriodDue(sql: Sql) {
  return sql`exists (select from grant_schedules where next_at <= extract(epoch from now()) * 1000 and deleted_at is null)`;
}

/** A page of the schedules that are due, those that have been due the longest first. */
function dueAfter(sql: Sql, { at, id }: Place) {
  return sql<Due[]>`
    select id, billing_id, team_id, next_at as at from grant_schedules
    where next_at <= extract(epoch from now()) * 1000 and (next_at, id) > (${at}, ${id}) and deleted_at is null
    order by next_at, id limit ${SCHEDULES_AT_ONCE}`;
}

/** Gives how many periods have no grant, since it would pass what a record may have. */
async function makeDue(tx: Transaction, redis: ShardedRedis, { id, billingId, teamId }: Due): Promise<number> {
  const [record] = await tx<[BillingRow & { deleted: boolean }]>`
    select b.*, w.deleted_at is not null as deleted
    from billing_records b join workspaces w on w.id = b.workspace_id where b.id = ${billingId} for update of b`;
  const [schedule] = await tx<(ScheduleRow & { tokenId: string; requestId: string })[]>`
    select ${schedules.columns(tx)}, token_id, request_id from grant_schedules
    where id = ${id} and deleted_at is null and next_at is not null for update`;
  if (!schedule) return 0;
  if (record.deleted) {
    await tx`update grant_schedules set next_at = null where id = ${id}`;
    return 0;
  }
  // What is set aside, or damaged, may not have heard of a void.
  const { atMs } = (await readHeard(redis, record)).balance;
  // By the clock that begins the period.
  if (atMs < schedule.nextAt!) return 0;
  const maker = { teamId, tokenId: schedule.tokenId, requestId: schedule.requestId };
  const notGranted = await makePeriods(tx, schedule, maker, atMs, { limited: false });
  const origin = { teamId, tokenId: null, operation: 'grant schedule', requestId: null };
  await recordAudit(tx, origin, notGrantedLines(schedule, notGranted));
  await recordNow(tx, 'billing', [record]);
  return notGranted.length;
}
