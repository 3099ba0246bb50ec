import { ApiError } from '../contract/errors.ts';
import { beginEvent } from '../events/event.ts';
import type { Books } from '../stores/clickhouse.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { Query } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { newId } from '../values/ids.ts';
import type { Balance } from './balances.ts';
import { billingKey, type BillingRef } from './billing-refs.ts';
import { lateUsage, readBooked, type BookedRecord } from './booked-records.ts';

/** Permission to write the balances of a shard: its fence, and the epoch that the balances are settled for. */
export type WriteGrant = (shard: number) => { fence: string; epoch: number };

const WITHIN_MS = 2_000;

/**
 * Sets the part of balances that comes from the books, and gives by how much each balance changed. It can run at any time
 * and again, because it writes the whole part and never adds to it.
 */
export async function settle(
  stores: { sql: Query; redis: ShardedRedis; books: Books },
  balances: Balance[],
  grant: WriteGrant,
): Promise<{ billing: BillingRef; changeMicros: number }[]> {
  const booked = await readBooked(stores, balances);
  const settled = await Promise.all(
    balances.map(async (balance) => ({
      billing: balance.billing,
      changeMicros: await settleOne(stores.redis, balance, booked.get(balance.billing.id)!, grant),
    })),
  );
  return settled.filter(({ changeMicros }) => changeMicros !== 0);
}

/** The permission that open shards give while they are in the epochs of these balances. */
export function grantOfOpenShards(redis: ShardedRedis, balances: Balance[]): WriteGrant {
  const epochs = new Map(balances.map(({ billing, epoch }) => [billing.shard, epoch]));
  return (shard) => ({ fence: redis.node(shard).runId(), epoch: epochs.get(shard)! });
}

async function settleOne(
  redis: ShardedRedis,
  balance: Balance,
  booked: BookedRecord,
  grant: WriteGrant,
): Promise<number> {
  const { billing } = balance;
  const { micros, events, from, to, adjustedMicros } = lateUsage(balance, booked);
  if (events <= balance.lateEvents && to === from) return 0;
  const node = redis.node(billing.shard);
  const keys = [keyspace.meta(billing.shard), billingKey(billing), keyspace.outbox(billing.shard)];
  const { fence, epoch } = grant(billing.shard);
  const event = beginEvent({ kind: 'settlement', id: newId('evt'), billingId: billing.id });
  const sums = [micros, events, from, to, adjustedMicros, booked.lastMicros ?? ''];
  const args = [fence, node.notAfter(WITHIN_MS), epoch, ...sums, event];
  const [status, , change] = await node.script('settle', keys, args, WITHIN_MS);
  if (status !== 'OK') {
    throw new ApiError('redis_unavailable', { cause: new Error(`the settle script answered ${status}`) });
  }
  return Number(change);
}
