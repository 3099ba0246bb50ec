import { dayOf, type UsageEvent } from '../../shared/events/event.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';

/** Marks the days of events that were inserted; `nowMs` is Redis's clock, read after the insert. */
export type MarkChangedDays = (events: UsageEvent[], nowMs: number) => Promise<void>;

// About 100 bytes each. Forgetting them costs marks that were not needed, nothing else.
const MAX_REMEMBERED = 500_000;
const MARK_WITHIN_MS = 15_000;

/**
 * Marks (billing record, day) pairs, so that their sums are computed anew once the day is over. A mark gets another
 * number each time, which tells a rollup in progress that it may have missed something.
 *
 * Today's records that this process already marked today are left out: an open day is never rolled up, so its marks
 * stay. That saves nearly all of the writes.
 */
export function makeMarkChangedDays(sql: Sql): MarkChangedDays {
  let today = '';
  let marked = new Set<string>();

  return async function markChangedDays(events, nowMs) {
    if (today !== dayOf(nowMs) || marked.size > MAX_REMEMBERED) {
      today = dayOf(nowMs);
      marked = new Set();
    }
    const pairs = new Map<string, { billingId: string; day: string }>();
    for (const { billingId, day } of events) {
      if (billingId === '') continue;
      if (day !== today || !marked.has(billingId)) pairs.set(billingId + day, { billingId, day });
    }
    if (pairs.size === 0) return;
    await withTimeout(MARK_WITHIN_MS, mark(sql, [...pairs.values()]));
    for (const { billingId, day } of pairs.values()) if (day === today) marked.add(billingId);
  };
}

async function mark(sql: Sql, pairs: { billingId: string; day: string }[]): Promise<void> {
  // In one order, so that two consumers can not wait for each other.
  await sql`
    insert into usage_marks (billing_id, day)
    select billing_id, day
    from unnest(${pairs.map((pair) => pair.billingId)}::text[], ${pairs.map((pair) => pair.day)}::date[]) as pair (billing_id, day)
    order by billing_id, day
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
}
