import { isExhausted, noteCreditLooks } from '../../shared/books/credit-states.ts';
import { STATING } from '../../shared/events/event-kinds.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { eachOf, type Sql } from '../../shared/stores/postgres.ts';
import { forWanting } from './for-wanting.ts';

/**
 * Notes the records whose credits these events may have exhausted or replenished, where a webhook wants to know; calls `soon` then.
 * Whoever looks at them (look-at-credits.ts) asks Redis: an event may be old, and is only a reason to look.
 */
export async function notifyCredits(
  sql: Sql,
  clock: Clock,
  soon: () => void = () => {},
  events: UsageEvent[],
): Promise<void> {
  const metered = events.filter(({ billingId, kind }) => billingId !== '' && !STATING.has(kind));
  await forWanting({ sql, clock }, ['credits.exhausted', 'credits.replenished'], metered, (some) =>
    note(sql, some, soon),
  );
}

async function note(sql: Sql, events: UsageEvent[], soon: () => void): Promise<void> {
  const byRecord = Map.groupBy(events, ({ billingId }) => billingId);
  const rows = await sql<RecordRow[]>`
    select b.id, b.allow_overages, b.spend_cap_micros, b.total_micros, b.has_classes, coalesce(s.is_exhausted, false) as was_exhausted
    from billing_records b left join credit_states s on s.billing_id = b.id
    where b.id = any(${eachOf(sql, [...byRecord.keys()])})`;
  const changed = rows.filter((row) => byRecord.get(row.id)!.some((event) => mayHaveChanged(row, event)));
  if (changed.length === 0) return;
  const ids = changed.map(({ id }) => id);
  await noteCreditLooks(sql, ids);
  soon();
}

type RecordRow = {
  id: string;
  allowOverages: boolean;
  spendCapMicros: number | null;
  totalMicros: number;
  hasClasses: boolean;
  wasExhausted: boolean;
};

/** What an account has, Redis alone knows; and a line that is no verification may have changed more than it says. */
function mayHaveChanged(row: RecordRow, { kind, usedMicros, heldMicros }: UsageEvent): boolean {
  if (row.wasExhausted || row.hasClasses || kind !== 'verification') return true;
  return isExhausted(row, { usedMicros, heldMicros, totalMicros: row.totalMicros, expiredMicros: 0 });
}
