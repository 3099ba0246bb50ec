import type { Books } from '../../../shared/stores/clickhouse.ts';
import { lineOfEvent, sumsOfLine } from '../../../shared/books/day-sums.ts';
import { dayOf } from '../../../shared/events/event.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';

/** A changed day of a billing record. `mark` is another number after each change. */
type ChangedDay = { billingId: string; day: string; mark: number };
type Stores = { sql: Sql; books: Books };
type Position = Pick<ChangedDay, 'billingId' | 'day'>;

const RECORDS_AT_ONCE = 200;
// A day is summed up only some time after its end. Events from around midnight are then in it, and a server that takes
// over with a clock slightly behind can't open the day again.
const AFTER_DAY_END_MS = 10 * 60_000;

/**
 * Sums up every changed day that is over by Redis's clock.
 * 1. Read the marks of some days. Until they are cleared, readers sum up those days from the events.
 * 2. Sum up the whole days from the events: by usage name, which `/usage` bills, and by epoch, which settling and
 *    reconciling read. A crash here, or a repetition, is harmless.
 * 3. Clear the marks that still have the same number. A mark with another number means that an event came meanwhile; the
 *    next run sums up its day again. A day whose books have lost events stays marked, so that reconciling reads its events
 *    and names what is missing.
 */
export async function rollUp({ sql, books }: Stores, nowMs: number, signal: AbortSignal): Promise<void> {
  let last: Position = { billingId: '', day: '0001-01-01' };
  const failures: unknown[] = [];
  for (;;) {
    signal.throwIfAborted();
    const days = await nextChangedDays(sql, last, dayOf(nowMs - AFTER_DAY_END_MS));
    if (days.length === 0) break;
    failures.push(...(await rollUpDays({ sql, books }, days, signal)));
    last = days.at(-1)!;
  }
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} days of records were not summed up`);
}

/** Sums up records of one day. Those that fail alone are left marked and hold up no others; their errors are returned. */
async function rollUpDays({ sql, books }: Stores, days: ChangedDay[], signal: AbortSignal): Promise<unknown[]> {
  const { day } = days[0]!;
  try {
    signal.throwIfAborted();
    const short = await withLostEvents(books, day, days);
    await sumUp(books, day, days);
    await clearMarks(
      sql,
      day,
      days.filter(({ billingId }) => !short.has(billingId)),
    );
    return [];
  } catch (error) {
    signal.throwIfAborted();
    if (!(await books.ready())) throw error;
    if (days.length === 1) return [error];
    const half = Math.ceil(days.length / 2);
    const failures = await rollUpDays({ sql, books }, days.slice(0, half), signal);
    return [...failures, ...(await rollUpDays({ sql, books }, days.slice(half), signal))];
  }
}

/** The next records that changed on one day, in order: a run handles each once, however often its mark changes. */
async function nextChangedDays(sql: Sql, last: Position, beforeDay: string): Promise<ChangedDay[]> {
  const days = await sql<ChangedDay[]>`
    select billing_id, day, mark from usage_marks
    where day < ${beforeDay} and day >= ${last.day} and (day, billing_id) > (${last.day}, ${last.billingId})
    order by day, billing_id limit ${RECORDS_AT_ONCE}`;
  return days.filter(({ day }) => day === days[0]!.day);
}

/** The records whose sums of this day, from an earlier run, have more events than the books have now. */
async function withLostEvents({ client }: Books, day: string, days: ChangedDay[]): Promise<Set<string>> {
  const answer = await client.query({
    query: `with summed as (
              select billing_id from booked_days where day = {day:Date} and billing_id in {billingIds:Array(String)})
            select distinct billing_id from (
              select billing_id, line, epoch, all_events as stored, 0 as counted from booked_days final
              where day = {day:Date} and billing_id in summed
              union all
              select billing_id, line, line_epoch, 0, count() from (
                select billing_id, kind, epoch, seq, number, ${lineOfEvent} from usage_events final
                where day = {day:Date} and billing_id in summed
              ) group by billing_id, line, line_epoch
            ) group by billing_id, line, epoch having sum(stored) > sum(counted)`,
    query_params: { day, billingIds: days.map(({ billingId }) => billingId) },
    format: 'JSONCompactEachRow',
  });
  return new Set((await answer.json<[id: string]>()).map(([id]) => id));
}

async function sumUp({ client }: Books, day: string, days: ChangedDay[]): Promise<void> {
  const query_params = { day, billingIds: days.map(({ billingId }) => billingId) };
  await client.command({
    query: `insert into usage_daily (billing_id, day, usage_name, cost_micros, events, all_events)
            select billing_id, day, usage_name, sum(cost_micros), countIf(kind = 'verification'), count()
            from usage_events final
            where day = {day:Date} and billing_id in {billingIds:Array(String)}
              and kind in ('verification', 'adjustment')
            group by billing_id, day, usage_name`,
    query_params,
  });
  await client.command({
    query: `insert into booked_days (billing_id, day, line, epoch, ${Object.keys(sumsOfLine).join(', ')}, all_events)
            select billing_id, day, line, line_epoch, ${Object.values(sumsOfLine).join(', ')}, count()
            from (
              select billing_id, day, kind, epoch, seq, number, cost_micros, used_micros, ${lineOfEvent}
              from usage_events final
              where day = {day:Date} and billing_id in {billingIds:Array(String)}
            )
            group by billing_id, day, line, line_epoch`,
    query_params,
  });
}

async function clearMarks(sql: Sql, day: string, days: ChangedDay[]): Promise<void> {
  await sql`
    delete from usage_marks as current
    using unnest(${days.map(({ billingId }) => billingId)}::text[], ${days.map(({ mark }) => mark)}::bigint[]) as summed (billing_id, mark)
    where current.billing_id = summed.billing_id and current.day = ${day} and current.mark = summed.mark`;
}
