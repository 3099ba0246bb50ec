import type { Books } from '../../../shared/stores/clickhouse.ts';
import { dayOf } from '../../../shared/events/event.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';

type Mark = { billingId: string; day: string; mark: number };

const RECORDS_AT_ONCE = 200;
// A day is left to settle after its end: stragglers of midnight are summed up once, and a clock that is a little
// behind (a server that took over) can not open a day again that was summed up already.
const SETTLE_MS = 10 * 60_000;

/**
 * Sums up every marked day that is over by Redis's clock.
 * 1. Remember the marks of a chunk. Until they are cleared, readers read those days live.
 * 2. Compute the whole days anew from the events. Dying here or repeating it is harmless.
 * 3. Clear the marks whose number is still the same. Another number: an event came meanwhile, and the next run
 *    computes that day again.
 */
export async function rollUp({ sql, books }: { sql: Sql; books: Books }, nowMs: number, signal: AbortSignal) {
  let last: Pick<Mark, 'billingId' | 'day'> = { billingId: '', day: '0001-01-01' };
  for (;;) {
    signal.throwIfAborted();
    const marks = await nextMarks(sql, last, dayOf(nowMs - SETTLE_MS));
    if (marks.length === 0) return;
    await sumUp(books, marks[0]!.day, marks);
    await clear(sql, marks);
    last = marks.at(-1)!;
  }
}

/** The marks after the last one, of one day, in order: each run passes each mark once, however often it changes. */
async function nextMarks(sql: Sql, last: Pick<Mark, 'billingId' | 'day'>, beforeDay: string): Promise<Mark[]> {
  const marks = await sql<Mark[]>`
    select billing_id, day, mark from usage_marks
    where day < ${beforeDay} and day >= ${last.day} and (day, billing_id) > (${last.day}, ${last.billingId})
    order by day, billing_id limit ${RECORDS_AT_ONCE}`;
  return marks.filter((mark) => mark.day === marks[0]!.day);
}

async function sumUp(books: Books, day: string, marks: Mark[]): Promise<void> {
  await books.client.command({
    query: `insert into usage_daily (billing_id, day, usage_name, cost_micros, events, all_events)
            select billing_id, day, usage_name, sum(cost_micros), countIf(kind = 'verification'), count()
            from usage_events final
            where day = {day:Date} and billing_id in {billingIds:Array(String)}
              and kind in ('verification', 'adjustment')
            group by billing_id, day, usage_name`,
    query_params: { day, billingIds: marks.map((mark) => mark.billingId) },
  });
}

async function clear(sql: Sql, marks: Mark[]): Promise<void> {
  await sql`
    delete from usage_marks as current
    using unnest(${marks.map((mark) => mark.billingId)}::text[], ${marks.map((mark) => mark.mark)}::bigint[]) as summed (billing_id, mark)
    where current.billing_id = summed.billing_id and current.day = ${marks[0]!.day} and current.mark = summed.mark`;
}
