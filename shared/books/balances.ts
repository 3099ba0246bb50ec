import { ApiError } from '../contract/errors.ts';
import { mapLimited } from '../runtime/map-limited.ts';
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
  /** The record is held: it counts nothing, and its balance has yet to be taken from the books. */
  held?: boolean;
};

/** A record that failed alone, and why. */
export type FailedRecord = { billing: BillingRef; error: unknown };

/** What Redis has of some records. Those that are not there are left out. */
export type FoundBalances = { balances: Balance[]; held: Balance[]; corrupt: FailedRecord[] };

/** How many scripts of one record each may be under way at a time. */
export const SCRIPTS_AT_ONCE = 64;
const WITHIN_MS = 2_000;

/** Reads balances. Records that are not in Redis, or whose balance is not known there, are left out. 503 where a shard is closed. */
export async function readBalances(
  redis: ShardedRedis,
  billings: BillingRef[],
  withinMs = WITHIN_MS,
): Promise<Balance[]> {
  return (await findBalances(redis, billings, undefined, withinMs)).balances;
}

/** Reads balances, and tells which records have none that could be read. 503 where a shard is closed to this fence. */
export async function findBalances(
  redis: ShardedRedis,
  billings: BillingRef[],
  fence = (shard: number) => redis.node(shard).runId(),
  withinMs = WITHIN_MS,
): Promise<FoundBalances> {
  const found: FoundBalances = { balances: [], held: [], corrupt: [] };
  const answers = await mapLimited(billings, SCRIPTS_AT_ONCE, (billing) => {
    const keys = [keyspace.meta(billing.shard), billingKey(billing)];
    return redis.node(billing.shard).script('balance', keys, [fence(billing.shard)], withinMs);
  });
  for (const [i, [status, at, epoch, ...fields]] of answers.entries()) {
    const billing = billings[i]!;
    if (status === 'CLOSED') throw new ApiError('redis_unavailable');
    if (status === 'CORRUPT') found.corrupt.push({ billing, error: new Error(epoch) });
    if (status !== 'OK') continue;
    const balance = balanceFrom(billing, Number(at), Number(epoch), fields);
    if (balance?.held) found.held.push(balance);
    else if (balance) found.balances.push(balance);
    else found.corrupt.push({ billing, error: new Error('a counter of a billing record is no number') });
  }
  return found;
}

/** A balance that counts nothing. */
export function emptyBalance(billing: BillingRef, epoch: number): Balance {
  const nothing = { usedMicros: 0, lateMicros: 0, lateEvents: 0, adjustment: 0 };
  return { billing, atMs: 0, epoch, ...nothing, sequences: new Map() };
}

/** The balance in an answer of the script; undefined when a counter is no number. */
function balanceFrom(billing: BillingRef, atMs: number, epoch: number, fields: string[]): Balance | undefined {
  const known = new Map<string, number>();
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (fields[i] === 'u' && fields[i + 1] === 'held') return { ...emptyBalance(billing, epoch), atMs, held: true };
    known.set(fields[i]!, Number(fields[i + 1]));
  }
  if ([...known.values()].some(Number.isNaN)) return undefined;
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
