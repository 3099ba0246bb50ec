import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import type { Sql } from '../../shared/stores/postgres.ts';

/** Notes that what ended grants gave is to be copied again where these events, which were just inserted, gave credits back to them. */
export type NoteReturned = (events: CarriedEvent[]) => Promise<void>;

// As a turn's line tells it (parts/account.lua). Other texts that say so cost one copy.
const HAS_RETURNED = 'returned - ';
// The account itself says for a day what has ended.
const ENDED_FOR = '2 days';

/** Whoever gives credits back, by an adjustment or a late capture, tells it in a turn. */
export function makeNoteReturned(sql: Sql): NoteReturned {
  return async function noteReturned(events) {
    const returned = events.filter(({ kind, json }) => kind === 'turn' && json.includes(HAS_RETURNED));
    if (returned.length === 0) return;
    const ids = [...new Set(returned.map(({ billingId }) => billingId))];
    const since = sql`extract(epoch from now() - ${ENDED_FOR}::interval) * 1000`;
    await sql.begin(async (tx) => {
      // Locked first and in one order, as every change to grants locks its record.
      await tx`select from billing_records where id = any(${ids}) order by id for update`;
      await tx`
        update grant_classes set told_turn = null
        where billing_id = any(${ids}) and ends_at is not null
          and coalesce(rolls_until, ends_at) between ${since} and extract(epoch from now()) * 1000`;
      await tx`
        update grants set told_turn = null
        where billing_id = any(${ids}) and voided_at > ${since} and before_micros is not null`;
    });
  };
}
