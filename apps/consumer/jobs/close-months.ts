import type { Stores } from '../../../shared/books/reconciling/reconcile.ts';
import {
  beginMonth,
  nextMonth,
  recordsWithoutLine,
  storeLines,
  type NextMonth,
} from '../../../shared/books/statements/closing.ts';
import { monthColumns, type ClosedMonth } from '../../../shared/books/statements/lines.ts';
import { spanOfMonth } from '../../../shared/books/statements/span.ts';
import { makeStatements, type Statement } from '../../../shared/books/statements/statements.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Sql, Transaction } from '../../../shared/stores/postgres.ts';
import { notifyWebhooks } from '../../../shared/stores/notify-webhooks.ts';
import { newId } from '../../../shared/values/ids.ts';

export type JobStores = Stores & { sql: Sql };

const WORKSPACES_AT_ONCE = 100;
const MONTHS_AT_ONCE = 100;
const RECORDS_AT_ONCE = 100;
const PATIENCE_MS = 5_000;
// A month closes by itself so long after its end.
const CLOSE_AFTER_MS = 3 * 86_400_000;
const WHILE_ONE_IS_OPEN_MS = 3_600_000;
const AFTER_FAILURE_MS = 60_000;
const NEVER = 9_000_000_000_000_000;
const TOLD_IDS = 10;

/**
 * Closes months. It may die anywhere:
 * 1. Begin each month that is due. From the commit on nothing is booked into it, and its late events are noted.
 * 2. Once nobody is left who does not see that, store the lines of its records, page by page; a record whose books are not proved
 *    waits, and holds up no other. A line is stored with what it tells of earlier months, once.
 * 3. When every record has its line, the month is closed, and webhooks are notified in the same transaction.
 */
export async function closeMonths(stores: JobStores, nowMs: number, log: Logger, signal: AbortSignal): Promise<void> {
  const { sql } = stores;
  await beginDue(sql, nowMs, log, signal);
  const open = await sql<ClosedMonth[]>`
    select ${monthColumns(sql)} from workspace_months this
    where closed_at is null and (looked_at is null or looked_at < now() - interval '20 seconds')
      -- A snapshot sees no transaction from its xmax on: such a row came with a dump of another cluster, and nobody misses it.
      and (tx < pg_snapshot_xmin(pg_current_snapshot()) or tx >= pg_snapshot_xmax(pg_current_snapshot()))
      -- A line begins with the one before it.
      and not exists (select from workspace_months earlier where earlier.workspace_id = this.workspace_id
                      and earlier.month < this.month and earlier.closed_at is null)
    order by looked_at nulls first, created_at limit ${MONTHS_AT_ONCE}`;
  for (const month of open) {
    signal.throwIfAborted();
    // One workspace's trouble stays its own.
    await closeMonth(stores, month, nowMs, signal).catch(async (error: unknown) => {
      signal.throwIfAborted();
      log.warn({ error, workspaceId: month.workspaceId, month: month.month }, 'closing a month failed; trying again');
      await sql`
        update workspace_months set looked_at = now() where workspace_id = ${month.workspaceId} and month = ${month.month}`;
    });
  }
}

/** Whether a month is to be closed. */
export async function isMonthDue(sql: Sql, nowMs: number): Promise<boolean> {
  const [row] = await sql<[{ due: boolean }]>`
    select exists (select from workspaces where month_due_at is null) or exists (select from workspaces where month_due_at <= ${nowMs})
           or exists (select from workspace_months where closed_at is null) as due`;
  return row.due;
}

async function beginDue(sql: Sql, nowMs: number, log: Logger, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const due = await sql<{ id: string }[]>`
      select id from workspaces where month_due_at is null or month_due_at <= ${nowMs}
      order by month_due_at nulls first, id limit ${WORKSPACES_AT_ONCE}`;
    for (const { id } of due)
      await sql
        .begin((tx) => beginIfDue(tx, id, nowMs))
        .catch(async (error: unknown) => {
          signal.throwIfAborted();
          log.warn({ error, workspaceId: id }, 'beginning to close a month failed; trying again');
          // Skip locked: whoever holds the row may be what failed.
          await sql`
            update workspaces set month_due_at = ${nowMs + AFTER_FAILURE_MS}
            where id = (select id from workspaces where id = ${id} for update skip locked)`;
        });
    if (due.length < WORKSPACES_AT_ONCE) return;
  }
}

async function beginIfDue(tx: Transaction, workspaceId: string, nowMs: number): Promise<void> {
  await tx`select from workspaces where id = ${workspaceId} for update`;
  let next: NextMonth = await nextMonth(tx, workspaceId);
  if (dueAt(next) <= nowMs && next.closing === null) {
    await beginMonth(tx, workspaceId, next, { acceptsDifferences: false });
    await tx`
      insert into audit_log (id, team_id, operation, resource, resource_id, after)
      values (${newId('audit')}, ${next.teamId}, 'month closed', 'workspace_month', ${workspaceId},
              ${JSON.stringify({ month: next.month, acceptsDifferences: false })}::text::json)`;
    next = await nextMonth(tx, workspaceId);
  }
  // One after the other, so that a workspace of long ago does not close all at once.
  const at = Math.max(dueAt(next), nowMs + WHILE_ONE_IS_OPEN_MS);
  await tx`update workspaces set month_due_at = ${at} where id = ${workspaceId}`;
}

function dueAt({ span, isDeleted }: NextMonth): number {
  return isDeleted ? NEVER : span.endMs + CLOSE_AFTER_MS;
}

type Waiting = { pending: number; different: number; billingIds: string[] };

async function closeMonth(stores: JobStores, month: ClosedMonth, nowMs: number, signal: AbortSignal): Promise<void> {
  const { sql } = stores;
  const { workspaceId, timezone, startMs, startDay } = month;
  const span = spanOfMonth(month.month, timezone, { startMs, startDay });
  const waiting: Waiting = { pending: 0, different: 0, billingIds: [] };
  for (let after = ''; ;) {
    signal.throwIfAborted();
    const billings = await recordsWithoutLine(sql, month, after, RECORDS_AT_ONCE);
    if (billings.length === 0) break;
    after = billings.at(-1)!.id;
    const wanted = { workspaceId, billings, span, nowMs, patienceMs: PATIENCE_MS };
    const { statements, late } = await makeStatements(stores, wanted);
    const ready = statements.filter((one) => mayClose(one, month));
    await sql.begin((tx) => storeLines(tx, month, ready, late));
    for (const { billingId, proof } of statements.filter((one) => !mayClose(one, month))) {
      waiting[proof.status === 'PENDING' ? 'pending' : 'different'] += 1;
      if (waiting.billingIds.length < TOLD_IDS) waiting.billingIds.push(billingId);
    }
  }
  await sql.begin((tx) => finish(tx, month, waiting, nowMs));
}

function mayClose({ proof }: Statement, { acceptsDifferences }: ClosedMonth): boolean {
  return proof.status === 'EXACT' || (proof.status === 'DIFFERENT' && acceptsDifferences);
}

async function finish(tx: Transaction, month: ClosedMonth, waiting: Waiting, nowMs: number): Promise<void> {
  const of = tx`workspace_id = ${month.workspaceId} and month = ${month.month} and closed_at is null`;
  const [open] = await tx`select from workspace_months where ${of} for no key update`;
  if (!open) return;
  // A record that was made meanwhile.
  const left = await recordsWithoutLine(tx, month, '', 1);
  if (left.length > 0) {
    await tx`update workspace_months set looked_at = now(), waiting = ${JSON.stringify(waiting)}::text::json where ${of}`;
    return;
  }
  const [{ records }] = await tx<[{ records: number }]>`
    update workspace_months set closed_at = now(), looked_at = now(), waiting = null,
      records = (select count(*) from statement_lines l where l.workspace_id = ${month.workspaceId} and l.month = ${month.month})
    where ${of} returning records`;
  const { workspaceId, teamId, timezone } = month;
  const data = { month: month.month, timezone, records };
  await notifyWebhooks(tx, [
    { type: 'month.closed', teamId, workspaceId, subjectId: workspaceId, cause: month.month, atMs: nowMs, data },
  ]);
}
