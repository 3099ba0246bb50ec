import { lineId, UnreadableEvent } from '../../events/event.ts';
import type { Books } from '../../stores/clickhouse.ts';
import type { TurnPlace } from '../sums/booked-lines.ts';
import { inGroups, type RecordRef } from '../sums/day-sums.ts';

/** An account after a turn. */
export type TurnLine = {
  id: string;
  usedMicros: number;
  heldMicros: number;
  totalMicros: number;
  expiredMicros: number;
  /** The id of the turn before; empty for the first one. */
  before: string;
  /** What the moment was, as the scripts tell it. */
  told: string[];
  /** The field `t` of the record in Redis. */
  state: string;
};

/** A turn, and the record that it is of. */
export type TurnOf = RecordRef & { turn: TurnPlace };

/** Reads the lines of turns, by record. The table's key has their ids, so of each one block of rows is read. */
export async function readTurnLines(books: Books, turns: TurnOf[]): Promise<Map<string, TurnLine>> {
  const found = new Map<string, TurnLine>();
  for (const some of inGroups(turns, () => 3)) {
    // Without `final`: copies of a line are equal.
    const answer = await books.client.query({
      query: `
        select billing_id, event_id, used_micros, held_micros, detail from usage_events
        where (workspace_id, day, billing_id, key_id, event_id) in (
          select turn.1, turn.2, turn.3, '', turn.4
          from (select arrayJoin(arrayZip({workspaceIds:Array(String)}, {days:Array(Date)}, {billingIds:Array(String)},
                                          {ids:Array(String)})) as turn))
        limit 1 by billing_id`,
      query_params: {
        workspaceIds: some.map(({ workspaceId }) => workspaceId),
        billingIds: some.map(({ id }) => id),
        days: some.map(({ turn }) => turn.day),
        ids: some.map(({ id, turn }) => lineId(id, turn.epoch, turn.number)),
      },
      format: 'JSONCompactEachRow',
    });
    type Row = [billingId: string, id: string, used: string, held: string, detail: string];
    for (const [billingId, id, used, held, detail] of await answer.json<Row>())
      found.set(billingId, { id, usedMicros: Number(used), heldMicros: Number(held), ...readDetail(detail) });
  }
  return found;
}

function readDetail(detail: string): Pick<TurnLine, 'before' | 'totalMicros' | 'expiredMicros' | 'told' | 'state'> {
  const [before = '', total, expired, told = '', ...state] = detail.split('\0');
  const [totalMicros, expiredMicros] = [Number(total), Number(expired)];
  if (state.length === 0 || !Number.isSafeInteger(totalMicros) || !Number.isSafeInteger(expiredMicros))
    throw new UnreadableEvent('the line of a turn has no state');
  return { before, totalMicros, expiredMicros, told: told === '' ? [] : told.split('\n'), state: state.join('\0') };
}
