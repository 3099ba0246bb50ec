import { readBalances, grantOfOpenShards, settle, type BillingRef } from '../../shared/books/balances.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import { openShards } from '../../shared/stores/fence.ts';
import { SHARDS } from '../../shared/values/key-text.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';

/** Takes into the balances what events that were inserted say of usage that Redis has lost. */
export type SettleLateEvents = (events: UsageEvent[]) => Promise<void>;

const LOOK_WITHIN_MS = 1_000;

/**
 * An event of an earlier epoch than its shard's, with a number that its shard does not know, was lost there: the balance
 * is then set anew from the books. Fails while the shard of such an event may be closed, for whoever reopens it may
 * have read the books before the event was there.
 */
export function makeSettleLateEvents({
  sql,
  redis,
  books,
  log,
}: {
  sql: Sql;
  redis: ShardedRedis;
  books: Books;
  log: Logger;
}): SettleLateEvents {
  return async function settleLateEvents(events) {
    const open = await openShards(redis, LOOK_WITHIN_MS);
    const newest = open.size === SHARDS ? Math.max(...[...open.values()].map(({ epoch }) => epoch)) : Infinity;
    // Nearly always none: then this was all.
    const old = events.filter(({ billingId, epoch }) => billingId !== '' && epoch < newest);
    if (old.length === 0) return;

    const byRecord = Map.groupBy(old, (event) => event.billingId);
    const places = await sql<BillingRef[]>`
      select id, shard, workspace_id, external_meter_id from billing_records where id = any(${[...byRecord.keys()]})`;
    const closed = places.find(({ shard }) => !open.has(shard));
    if (closed) throw new Error(`shard ${closed.shard} is closed, and its balances may lack what came late`);
    const earlier = places.filter(({ id, shard }) =>
      byRecord.get(id)!.some(({ epoch }) => epoch < open.get(shard)!.epoch),
    );
    const lacking = (await readBalances(redis, earlier)).filter(({ place, epoch, numbers, adjustment }) =>
      byRecord.get(place.id)!.some((event) => {
        if (event.kind === 'adjustment') return event.number > adjustment;
        return event.kind === 'verification' && event.epoch < epoch && event.sequence > (numbers.get(event.epoch) ?? 0);
      }),
    );
    const settled = await settle(redis, books, lacking, grantOfOpenShards(redis, lacking));
    if (settled.length > 0)
      log.warn({ records: settled.length }, 'usage that Redis had lost came late and is in the balances');
  };
}
