import type { Clock } from '../../shared/runtime/clock.ts';
import { dayOf } from '../../shared/events/event.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { markDays, markedId, type RecordDay } from '../../shared/stores/usage-marks.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';

// About 100 bytes each. A process that forgets them only marks some days once more than needed.
const MAX_REMEMBERED = 500_000;
const MARK_WITHIN_MS = 15_000;

/**
 * Marks days of billing records, and of a workspace's unmetered verifications, whose sums have to be computed again. Each mark gets a new number, which tells a
 * rollup in progress that it may have missed an event.
 *
 * Records that this process has already marked for today are left out. An open day is never rolled up, so its marks
 * stay. This saves nearly all of the writes. `nowMs` is Redis's clock, read after the insert.
 *
 * A consumer that dies after its insert is followed by another one that gets the events again, unless Redis has lost them meanwhile: so
 * days are marked before, too, by the day that this machine has: after midnight the day before is no open one.
 */
export function makeMarkChangedDays(sql: Sql, clock: Clock) {
  let today = '';
  let marked = new Set<string>();

  return async function markChangedDays(events: RecordDay[], nowMs?: number): Promise<void> {
    const day = dayOf(nowMs ?? clock.now());
    if (today !== day || marked.size > MAX_REMEMBERED) {
      today = day;
      marked = new Set();
    }
    const days = events.filter((one) => one.day !== today || !marked.has(markedId(one)));
    if (days.length === 0) return;
    await withTimeout(clock, MARK_WITHIN_MS, markDays(sql, days));
    for (const one of days) if (one.day === today) marked.add(markedId(one));
  };
}
