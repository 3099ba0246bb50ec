import { byHalves, requireReady } from '../../../shared/books/by-halves.ts';
import { readRows, type Books } from '../../../shared/stores/clickhouse.ts';
import { columnsOfEvent, lineOfEvent, sumsOfLine } from '../../../shared/books/sums/day-sums.ts';
import { dayOf } from '../../../shared/events/event.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { usageDayColumns, usageDaysOf } from '../../../shared/stores/usage-days.ts';
import type { RecordDay } from '../../../shared/stores/usage-marks.ts';

/** A changed day; `id` is its name in usage_marks, and `mark` is another number after each change. */
type ChangedDay = RecordDay & { id: string; mark: number };
type Stores = { sql: Sql; books: Books };
type Position = Pick<ChangedDay, 'id' | 'day'>;

const RECORDS_AT_ONCE = 200;
/**
 * A day is summed up only some time after its end. Events from around midnight are then in it, and a server that takes
 * over with a clock slightly behind can't open the day again.
 */
export const AFTER_DAY_END_MS = 10 * 60_000;

/**
 * Sums up every changed day that is over by Redis's clock.
 * 1. Read the marks of some days. Until they are cleared, readers sum up those days from the events.
 * 2. Sum up the whole days from the events: by usage name and quarter hour, which `/usage` bills, and by epoch, which rebuilding and
 *    reconciling read. A crash here, or a repetition, is harmless.
 * 3. Clear the marks that still have the same number. A mark with another number means that an event came meanwhile; the
 *    next run sums up its day again. A day whose books have lost events stays marked, so that reconciling reads its events
 *    and names what is missing.
 */
export async function rollUp({ sql, books }: Stores, nowMs: number, signal: AbortSignal): Promise<void> {
  let last: Position = { id: '', day: '0001-01-01' };
  const failures: unknown[] = [];
  for (;;) {
    signal.throwIfAborted();
    const days = await nextChangedDays(sql, last, dayOf(nowMs - AFTER_DAY_END_MS));
    if (days.length === 0) break;
    // Those that fail alone are left marked, and hold up no others.
    const failed = await byHalves(
      days,
      (some) => rollUpDays({ sql, books }, some),
      () => requireReady(books, signal),
    );
    failures.push(...failed.map(({ error }) => error));
    last = days.at(-1)!;
  }
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} days of records were not summed up`);
}

async function rollUpDays({ sql, books }: Stores, days: ChangedDay[]): Promise<void> {
  const { day } = days[0]!;
  const short = await withLostEvents(books, day, days);
  await sumUp(books, day, days);
  await clearMarks(
    sql,
    day,
    days.filter(({ id }) => !short.has(id)),
  );
}

/** The next records that changed on one day, in order: a run handles each once, however often its mark changes. */
async function nextChangedDays(sql: Sql, last: Position, beforeDay: string): Promise<ChangedDay[]> {
  const days = await sql<Omit<ChangedDay, 'billingId'>[]>`
    select billing_id as id, workspace_id, day, mark from usage_marks
    where day < ${beforeDay} and day >= ${last.day} and (day, billing_id) > (${last.day}, ${last.id})
    order by day, billing_id limit ${RECORDS_AT_ONCE}`;
  const ofDay = days.filter(({ day }) => day === days[0]!.day);
  return ofDay.map((one) => ({ ...one, billingId: one.id === one.workspaceId ? '' : one.id }));
}

/** The records whose sums of this day, from an earlier run, have more events than the books have now. */
async function withLostEvents(books: Books, day: string, days: ChangedDay[]): Promise<Set<string>> {
  const rows = await readRows<[id: string]>(
    books,
    `with summed as (
              select billing_id from booked_days where day = {day:Date} and billing_id in {billingIds:Array(String)} and billing_id != '')
            select distinct billing_id from (
              select billing_id, line, epoch, all_events as stored, 0 as counted from booked_days final
              where day = {day:Date} and billing_id in summed
              union all
              select billing_id, line, line_epoch, 0, count() from (
                select billing_id, kind, epoch, seq, number, ${lineOfEvent} from usage_events final
                where ${IS_ASKED} and billing_id in summed
              ) group by billing_id, line, line_epoch
            ) group by billing_id, line, epoch having sum(stored) > sum(counted)`,
    paramsOf(day, days),
  );
  return new Set(rows.map(([id]) => id));
}

async function sumUp({ client }: Books, day: string, days: ChangedDay[]): Promise<void> {
  const query_params = paramsOf(day, days);
  await client.command({
    query: `insert into usage_days (${usageDayColumns})
            ${usageDaysOf(`usage_events final where ${IS_ASKED}`)}`,
    query_params,
  });
  await client.command({
    query: `insert into booked_days (billing_id, day, line, epoch, ${Object.keys(sumsOfLine).join(', ')}, all_events)
            select billing_id, day, line, line_epoch, ${Object.values(sumsOfLine).join(', ')}, count()
            from (
              select billing_id, day, ${columnsOfEvent}, ${lineOfEvent}
              from usage_events final
              where ${IS_ASKED} and billing_id != ''
            )
            group by billing_id, day, line, line_epoch`,
    query_params,
  });
}

// In the order of the table's key.
const IS_ASKED = `(workspace_id, day, billing_id) in (
                select one.1, {day:Date}, one.2
                from (select arrayJoin(arrayZip({workspaceIds:Array(String)}, {billingIds:Array(String)})) as one))`;

function paramsOf(day: string, days: ChangedDay[]) {
  const billingIds = days.map(({ billingId }) => billingId);
  return { day, billingIds, workspaceIds: days.map(({ workspaceId }) => workspaceId) };
}

async function clearMarks(sql: Sql, day: string, days: ChangedDay[]): Promise<void> {
  await sql`
    delete from usage_marks as current
    using unnest(${days.map(({ id }) => id)}::text[], ${days.map(({ mark }) => mark)}::bigint[]) as summed (billing_id, mark)
    where current.billing_id = summed.billing_id and current.day = ${day} and current.mark = summed.mark`;
}
