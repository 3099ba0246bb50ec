import type { Books } from '../../stores/clickhouse.ts';
import { inGroups, type RecordRef } from '../sums/day-sums.ts';

/** The place of an event in its record: its epoch and its sequence number there. */
export type Place = { epoch: number; sequence: number };

/**
 * The event of a place, and the record's used micro-credits before and after it. An adjustment has the sequence number of
 * the event before it, so "after" includes the adjustments that follow.
 */
export type Boundary = { eventId: string; usedBeforeMicros: number; usedAfterMicros: number };

/** Reads the events of some places of one record, which lie on these days; gives a look-up, undefined where the books have no such event. */
export async function readBoundaries(
  books: Books,
  record: RecordRef,
  places: Place[],
  days: string[],
): Promise<(place: Place) => Boundary | undefined> {
  const found = new Map<string, Boundary>();
  for (const some of inGroups(places, () => 1)) {
    // Without `final`: copies of an event are equal, and of an adjustment that was applied again the later epoch counts.
    const answer = await books.client.query({
      query: `
        select epoch, seq, anyIf(event_id, kind != 'adjustment'), anyIf(used_micros - cost_micros, kind != 'adjustment'),
          argMax(used_micros, number)
        from (
          select epoch, seq, kind, event_id, number, cost_micros, used_micros from usage_events
          where workspace_id = {workspaceId:String} and billing_id = {billingId:String} and (epoch, seq) in (
            select arrayJoin(arrayZip({epochs:Array(UInt32)}, {sequences:Array(UInt64)})))
            and (day in {days:Array(Date)} or kind = 'adjustment' and day in (
              select day from booked_days where billing_id = {billingId:String} and line = 'adjustment'))
          order by epoch desc limit 1 by event_id
        ) group by epoch, seq`,
      query_params: {
        billingId: record.id,
        workspaceId: record.workspaceId,
        days,
        epochs: some.map(({ epoch }) => epoch),
        sequences: some.map(({ sequence }) => sequence),
      },
      format: 'JSONCompactEachRow',
    });
    type Row = [epoch: number, sequence: string, eventId: string, before: string, after: string];
    for (const [epoch, sequence, eventId, before, after] of await answer.json<Row>()) {
      if (eventId === '') continue;
      found.set(`${epoch} ${sequence}`, {
        eventId,
        usedBeforeMicros: Number(before),
        usedAfterMicros: Number(after),
      });
    }
  }
  return ({ epoch, sequence }) => found.get(`${epoch} ${sequence}`);
}
