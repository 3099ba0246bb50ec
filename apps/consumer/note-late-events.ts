import { billingRefsAfter } from '../../shared/books/billing-refs.ts';
import { noteUnsettled } from '../../shared/books/rebuilding/unsettled-records.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import { openShards } from '../../shared/stores/fence.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { markDays } from '../../shared/stores/usage-marks.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { SHARDS } from '../../shared/values/key-text.ts';

const LOOK_WITHIN_MS = 1_000;
const RECORDS_AT_ONCE = 1_000;

/**
 * Makes what notes the records whose balances may lack some of these events, which were just inserted. An event of an earlier epoch than its shard may be one that its Redis has lost: its record is noted, to be rebuilt if that is so, its
 * day is marked as changed again, and `noted` is called. So is one whose shard may be closed: who opens that may have read the books
 * before the event was there.
 */
export function makeNoteLateEvents(sql: Sql, redis: ShardedRedis, noted: () => void = () => {}) {
  return async function noteLateEvents(events: UsageEvent[]): Promise<void> {
    const open = await openShards(redis, LOOK_WITHIN_MS);
    const newest = open.size === SHARDS ? Math.max(...[...open.values()].map(({ epoch }) => epoch)) : Infinity;
    // Nearly always there is none.
    const old = events.filter(({ billingId, epoch }) => billingId !== '' && epoch < newest);
    const byRecord = Map.groupBy(old, (event) => event.billingId);
    for (const some of chunks([...byRecord.keys()], RECORDS_AT_ONCE)) {
      const billings = await billingRefsAfter(sql, { ids: some }, '', some.length);
      const late = billings.filter(({ id, shard }) => {
        const epoch = open.get(shard)?.epoch ?? Infinity;
        return byRecord.get(id)!.some((event) => event.epoch < epoch);
      });
      if (late.length === 0) continue;
      const ids = late.map(({ id }) => id);
      // Each day anew, today too, which was marked before: its month may have closed meanwhile, since the balances did not know of
      // these events, and a later statement tells of what is marked after that.
      const again = ids.flatMap((id) => byRecord.get(id)!);
      await markDays(sql, again);
      await noteUnsettled(sql, ids);
      noted();
    }
  };
}
