import { ApiError } from '../contract/errors.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { billingKey, type BillingRef } from './billing-refs.ts';

/**
 * A record's balance as Redis has it. Redis counts its own debits by sequence numbers within epochs. Debits of an earlier
 * epoch that this Redis has lost it takes from the books: the events of that epoch with a sequence number above the last
 * one that survived. Adjustments are counted by their own numbers.
 */
export type Balance = {
  billing: BillingRef;
  /** When it was read, by Redis's clock. */
  atMs: number;
  epoch: number;
  usedMicros: number;
  /** The part of `usedMicros` that comes from the books alone, and the number of events that it is the sum of. */
  lateMicros: number;
  lateEvents: number;
  /** The number of the last adjustment. */
  adjustment: number;
  /** The last sequence number in each epoch that Redis knows. */
  sequences: Map<number, number>;
};

const WITHIN_MS = 2_000;

/** Reads balances. Records that are not in Redis are left out. 503 where a shard is closed. */
export async function readBalances(
  redis: ShardedRedis,
  billings: BillingRef[],
  withinMs = WITHIN_MS,
  fence = (shard: number) => redis.node(shard).runId(),
): Promise<Balance[]> {
  const balances = await Promise.all(
    billings.map(async (billing) => {
      const { shard } = billing;
      const keys = [keyspace.meta(shard), billingKey(billing)];
      const answer = await redis.node(shard).script('balance', keys, [fence(shard)], withinMs);
      const [status, at, epoch, ...fields] = answer;
      if (status === 'CLOSED') throw new ApiError('redis_unavailable');
      return status === 'OK' ? balanceFrom(billing, Number(at), Number(epoch), fields) : undefined;
    }),
  );
  return balances.filter((balance) => balance !== undefined);
}

function balanceFrom(billing: BillingRef, atMs: number, epoch: number, fields: string[]): Balance {
  const known = new Map<string, number>();
  for (let i = 0; i + 1 < fields.length; i += 2) known.set(fields[i]!, Number(fields[i + 1]));
  const sequences = [...known].flatMap(([name, value]): [number, number][] =>
    /^n\d+$/.test(name) ? [[Number(name.slice(1)), value]] : [],
  );
  return {
    billing,
    atMs,
    epoch,
    usedMicros: known.get('u') ?? 0,
    lateMicros: known.get('x') ?? 0,
    lateEvents: known.get('c') ?? 0,
    adjustment: known.get('a') ?? 0,
    sequences: new Map(sequences),
  };
}
