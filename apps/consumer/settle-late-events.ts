import { readBalances } from '../../shared/books/balances.ts';
import type { BillingRef } from '../../shared/books/billing-refs.ts';
import { grantOfOpenShards, settle } from '../../shared/books/settle.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import { openShards } from '../../shared/stores/fence.ts';
import { SHARDS } from '../../shared/values/key-text.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';

/** Settles the balances that lack some of these events, which were just inserted. */
export type SettleLateEvents = (events: UsageEvent[]) => Promise<void>;

const LOOK_WITHIN_MS = 1_000;

/**
 * A late event has an earlier epoch than its shard and a number that its shard does not know: Redis has lost it. Its
 * record's balance is then set from the books. This fails while the shard of such an event may be closed, because the
 * process that reopens the shard may have read the books before the event was inserted.
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
    // Nearly always there is none.
    const old = events.filter(({ billingId, epoch }) => billingId !== '' && epoch < newest);
    if (old.length === 0) return;

    const byRecord = Map.groupBy(old, (event) => event.billingId);
    const billings = await sql<BillingRef[]>`
      select id, shard, workspace_id, external_meter_id from billing_records where id = any(${[...byRecord.keys()]})`;
    const closed = billings.find(({ shard }) => !open.has(shard));
    if (closed) throw new Error(`shard ${closed.shard} is closed, and its balances may lack late events`);
    const earlier = billings.filter(({ id, shard }) =>
      byRecord.get(id)!.some(({ epoch }) => epoch < open.get(shard)!.epoch),
    );
    const lacking = (await readBalances(redis, earlier)).filter(({ billing, epoch, sequences, adjustment }) =>
      byRecord.get(billing.id)!.some((event) => {
        if (event.kind === 'adjustment') return event.number > adjustment;
        return (
          event.kind === 'verification' && event.epoch < epoch && event.sequence > (sequences.get(event.epoch) ?? 0)
        );
      }),
    );
    const settled = await settle({ sql, redis, books }, lacking, grantOfOpenShards(redis, lacking));
    if (settled.length > 0)
      log.warn({ records: settled.length }, 'late events of usage that Redis had lost are in the balances now');
  };
}
