import type { Books } from '../../../shared/stores/clickhouse.ts';
import { lineOfEvent, sumsOfLine } from '../../../shared/books/day-sums.ts';
import { dayOf } from '../../../shared/events/event.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';

/** A changed day of a billing record. `mark` is another number after each change. */
type ChangedDay = { billingId: string; day: string; mark: number };
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
 *    next run sums up its day again.
 */
export async function rollUp({ sql, books }: { sql: Sql; books: Books }, nowMs: number, signal: AbortSignal) {
  let last: Position = { billingId: '', day: '0001-01-01' };
  for (;;) {
    signal.throwIfAborted();
    const days = await nextChangedDays(sql, last, dayOf(nowMs - AFTER_DAY_END_MS));
    if (days.length === 0) return;
    await sumUp(books, days[0]!.day, days);
    await clearMarks(sql, days);
    last = days.at(-1)!;
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

async function clearMarks(sql: Sql, days: ChangedDay[]): Promise<void> {
  await sql`
    delete from usage_marks as current
    using unnest(${days.map(({ billingId }) => billingId)}::text[], ${days.map(({ mark }) => mark)}::bigint[]) as summed (billing_id, mark)
    where current.billing_id = summed.billing_id and current.day = ${days[0]!.day} and current.mark = summed.mark`;
}
