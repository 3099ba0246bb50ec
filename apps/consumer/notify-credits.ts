import type { Clock } from '../../shared/runtime/clock.ts';
import { isExhausted, noteCreditLooks } from '../../shared/books/credit-states.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import { STATING } from '../../shared/events/event-kinds.ts';
import { eventFields } from '../../shared/events/event.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import { eachOf, type Sql } from '../../shared/stores/postgres.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { wantingWorkspaces } from './wanting-workspaces.ts';

/** Notes the records whose credits these events may have exhausted or replenished, where a webhook wants to know. */
export type NotifyCredits = (events: CarriedEvent[]) => Promise<void>;

const WITHIN_MS = 15_000;
const RECORDS_AT_ONCE = 1_000;
// In JSON a quote inside of a text has a backslash before it, so only fields have these.
const USED = new RegExp(`"${eventFields.usedMicros.json}":(-?\\d+)`);
const HELD = new RegExp(`"${eventFields.heldMicros.json}":(\\d+)`);

/** Whoever looks at them (look-at-credits.ts) asks Redis: an event may be old, and is only a reason to look. */
export function makeNotifyCredits(sql: Sql, clock: Clock, soon: () => void): NotifyCredits {
  return async function notifyCredits(events) {
    const metered = events.filter(({ billingId, kind }) => billingId !== '' && !STATING.has(kind));
    if (metered.length === 0) return;
    const workspaceIds = [...new Set(metered.map(({ workspaceId }) => workspaceId))];
    const wanting = await wantingWorkspaces(sql, workspaceIds, ['credits.exhausted', 'credits.replenished']);
    const wanted = metered.filter(({ workspaceId }) => wanting.has(workspaceId));
    for (const some of chunks([...reasonsOf(wanted)], RECORDS_AT_ONCE))
      await withTimeout(clock, WITHIN_MS, note(sql, some, soon));
  };
}

type Reason = { usedMicros: number; heldMicros: number; isMore: boolean };

/** Of each record the most that its verifications say, and whether another line may have changed more. */
function reasonsOf(events: CarriedEvent[]): Map<string, Reason> {
  const reasons = new Map<string, Reason>();
  for (const { billingId, kind, json } of events) {
    const known = reasons.get(billingId) ?? { usedMicros: 0, heldMicros: 0, isMore: false };
    reasons.set(billingId, {
      usedMicros: Math.max(known.usedMicros, Number(USED.exec(json)?.[1] ?? 0)),
      heldMicros: Math.max(known.heldMicros, Number(HELD.exec(json)?.[1] ?? 0)),
      isMore: known.isMore || kind !== 'verification',
    });
  }
  return reasons;
}

async function note(sql: Sql, reasons: [id: string, reason: Reason][], soon: () => void): Promise<void> {
  const rows = await sql<RecordRow[]>`
    select b.id, b.allow_overages, b.spend_cap_micros, b.total_micros, b.has_classes, coalesce(s.is_exhausted, false) as was_exhausted
    from billing_records b left join credit_states s on s.billing_id = b.id
    where b.id = any(${eachOf(
      sql,
      reasons.map(([id]) => id),
    )})`;
  const byId = new Map(reasons);
  const ids = rows.filter((row) => mayHaveChanged(row, byId.get(row.id)!)).map(({ id }) => id);
  if (ids.length === 0) return;
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

/** What an account has, Redis alone knows. */
function mayHaveChanged(row: RecordRow, { usedMicros, heldMicros, isMore }: Reason): boolean {
  if (row.wasExhausted || row.hasClasses || isMore) return true;
  return isExhausted(row, { usedMicros, heldMicros, totalMicros: row.totalMicros, expiredMicros: 0 });
}
