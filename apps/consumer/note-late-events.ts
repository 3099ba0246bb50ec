import { findBalances } from '../../shared/books/balances.ts';
import { billingRefsAfter, type BillingRef } from '../../shared/books/billing-refs.ts';
import { noteUnsettled } from '../../shared/books/settling/unsettled-records.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import { STATING } from '../../shared/events/event-kinds.ts';
import { openShards } from '../../shared/stores/fence.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { markDays } from '../../shared/stores/usage-marks.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { SHARDS } from '../../shared/values/key-text.ts';

/** Notes the records whose balances lack some of these events, which were just inserted. */
export type NoteLateEvents = (events: CarriedEvent[]) => Promise<void>;

const LOOK_WITHIN_MS = 1_000;
const RECORDS_AT_ONCE = 1_000;

/**
 * A late event has an earlier epoch than its shard and a number that its shard does not know: Redis has lost it. Its
 * record is noted as unsettled, its day is marked as changed again, and `noted` is called. A note too many costs one look, so every record is noted whose shard
 * may be closed or whose balance can't be read: who reopens the shard may have read the books before the event was there.
 */
export function makeNoteLateEvents(sql: Sql, redis: ShardedRedis, noted: () => void = () => {}): NoteLateEvents {
  return async function noteLateEvents(events) {
    await noteLostHolds(events);
    const open = await openShards(redis, LOOK_WITHIN_MS);
    const newest = open.size === SHARDS ? Math.max(...[...open.values()].map(({ epoch }) => epoch)) : Infinity;
    // Nearly always there is none.
    const old = events.filter(({ billingId, epoch }) => billingId !== '' && epoch < newest);
    if (old.length === 0) return;

    const byRecord = Map.groupBy(old, (event) => event.billingId);
    for (const some of chunks([...byRecord.keys()], RECORDS_AT_ONCE)) {
      const billings = await billingRefsAfter(sql, { ids: some }, '', some.length);
      const closed = billings.filter(({ shard }) => !open.has(shard));
      const earlier = billings.filter(({ id, shard }) => {
        const epoch = open.get(shard)?.epoch;
        return epoch !== undefined && byRecord.get(id)!.some((event) => event.epoch < epoch);
      });
      const unsettled = [...closed, ...(await lacking(redis, earlier, byRecord))];
      if (unsettled.length === 0) continue;
      const ids = unsettled.map(({ id }) => id);
      // Each day anew, today too, which was marked before: its month may have closed meanwhile, since the balances did not know of
      // these events, and a later statement tells of what is marked after that.
      await markDays(
        sql,
        ids.flatMap((id) => byRecord.get(id)!),
      );
      await noteUnsettled(sql, ids);
      noted();
    }
  };

  async function noteLostHolds(events: CarriedEvent[]): Promise<void> {
    const ids = new Set(events.filter(settlesLostHold).map(({ billingId }) => billingId));
    if (ids.size === 0) return;
    await noteUnsettled(sql, [...ids]);
    noted();
  }
}

/**
 * Whether an event settled a hold that was not open in Redis: late, or because Redis had lost it. Then the books may have more of
 * the hold.
 */
function settlesLostHold({ kind, json }: CarriedEvent): boolean {
  return (kind === 'capture' || kind === 'release') && json.includes('"m":0');
}

/** Those records of open shards whose balances lack some of these events, or may lack them. */
async function lacking(
  redis: ShardedRedis,
  billings: BillingRef[],
  events: Map<string, CarriedEvent[]>,
): Promise<BillingRef[]> {
  const { balances, held, corrupt } = await findBalances(redis, billings);
  const behind = balances.filter(({ billing, epoch, sequences, adjustment }) =>
    events.get(billing.id)!.some((event) => {
      if (event.kind === 'adjustment') return event.number > adjustment;
      return !STATING.has(event.kind) && event.epoch < epoch && event.sequence > (sequences.get(event.epoch) ?? 0);
    }),
  );
  return [...behind, ...held, ...corrupt].map(({ billing }) => billing);
}
