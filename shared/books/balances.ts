import { ApiError } from '../contract/errors.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { hasClasses } from '../stores/account-settings.ts';
import { keyspace } from '../stores/keyspace.ts';
import { redisTimeMs } from '../stores/known-server.ts';
import { readRecord, versionOf } from '../stores/records.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { chunks } from '../values/chunks.ts';
import { readAccountState, readHotAccount, type AccountState, type HotAccount } from './account-state.ts';
import { billingKey, type BillingRef } from './billing-refs.ts';

/**
 * A record's balance as Redis has it. Redis counts its debits by sequence numbers within epochs, and adjustments by their own; what was
 * rebuilt counts the lines of earlier epochs that it was rebuilt from.
 */
export type Balance = {
  billing: BillingRef;
  /** When it was read, by Redis's clock. */
  atMs: number;
  epoch: number;
  usedMicros: number;
  /** Of the settings that Redis has of the record. */
  version?: number;
  /** Reserved micro-credits; a record without an account has none. */
  heldMicros?: number;
  /** Of an account: all credits that have begun, and those of them that expired. */
  totalMicros?: number;
  expiredMicros?: number;
  /** Its account, and when something of it falls due. */
  account?: { untilMs: number; state: AccountState };
  /** It has an account that has yet to take in its settings, or will have one. */
  lacksSettings?: boolean;
  /** How many lines of the books it was rebuilt from. */
  counted: number;
  /** The number of the last adjustment. */
  adjustment: number;
  /** The last sequence number in each epoch that Redis knows. */
  sequences: Map<number, number>;
};

/** What Redis has of some records; `unknown` are those that are set aside, or damaged: to be rebuilt. Those that are not there are left out. */
export type FoundBalances = { balances: Balance[]; unknown: BillingRef[] };

const WITHIN_MS = 2_000;
const RECORDS_AT_ONCE = 500;

/** Reads balances. Records that are not in Redis, or whose balance is not known there, are left out. 503 where a shard is closed. */
export async function readBalances(redis: ShardedRedis, billings: BillingRef[]): Promise<Balance[]> {
  return (await findBalances(redis, billings)).balances;
}

/** Reads balances, and tells which records have none that could be read. 503 where a shard is closed. */
export async function findBalances(redis: ShardedRedis, billings: BillingRef[]): Promise<FoundBalances> {
  const found: FoundBalances = { balances: [], unknown: [] };
  for (const [node, ofNode] of Map.groupBy(billings, ({ shard }) => redis.node(shard))) {
    for (const page of chunks(ofNode, RECORDS_AT_ONCE)) await readPage(node, page, found);
  }
  return found;
}

/**
 * Reads records of one server in one pipeline, with the state of their shards before and after: a shard that is closed or
 * opened again in between counts as closed.
 */
async function readPage(node: RedisNode, billings: BillingRef[], found: FoundBalances): Promise<void> {
  const runId = node.runId();
  const shards = [...new Set(billings.map(({ shard }) => shard))];
  const pipeline = node.client.pipeline();
  // First, so that every event of an earlier time is in these balances.
  pipeline.time();
  const readShards = () => {
    for (const shard of shards) pipeline.hmget(keyspace.meta(shard), 'owner', 'epoch');
  };
  readShards();
  for (const billing of billings) pipeline.hgetallBuffer(billingKey(billing));
  readShards();
  const answers = await withTimeout(node.clock, WITHIN_MS, pipeline.exec()).catch((cause: unknown) => {
    throw new ApiError('redis_unavailable', { cause });
  });
  const at = (i: number) => {
    const [error, answer] = answers?.[i] ?? [new Error('no answer')];
    if (error) throw new ApiError('redis_unavailable', { cause: error });
    return answer as (string | null)[];
  };
  const epochs = new Map<number, number>();
  for (const [i, shard] of shards.entries()) {
    const before = at(1 + i);
    const [owner, epoch] = before;
    if (owner !== runId || String(before) !== String(at(1 + shards.length + billings.length + i)))
      throw new ApiError('redis_unavailable', { cause: new Error(`shard ${shard} is closed`) });
    epochs.set(shard, Number(epoch ?? 0));
  }
  const atMs = redisTimeMs(at(0));
  for (const [i, billing] of billings.entries()) {
    const [error, fields] = answers![1 + shards.length + i]! as [Error | null, Record<string, Buffer>];
    try {
      if (error) throw error;
      // A record that was never debited has its settings; one without them is not here.
      if (fields.s !== undefined) addBalance(found, billing, atMs, epochs.get(billing.shard)!, fields);
    } catch {
      found.unknown.push(billing);
    }
  }
}

/** Adds a balance to those that are found. Throws where its counters tell none. */
function addBalance(
  found: FoundBalances,
  billing: BillingRef,
  atMs: number,
  epoch: number,
  bytes: Record<string, Buffer>,
): void {
  const fields = Object.fromEntries(Object.entries(bytes).map(([name, value]) => [name, value.toString()]));
  const hot = readHotAccount(bytes['u']);
  const amounts = hot && amountsOf(hot);
  const texts = new Set(hot ? ['s', 't', 'u'] : ['s']);
  const counters = Object.entries(fields).filter(([name]) => !texts.has(name));
  const known = new Map(counters.map(([name, value]) => [name, Number(value)]));
  // One that is set aside has a text in place of its used credits.
  if ([...known.values(), ...Object.values({ ...hot, classes: 0 })].some(Number.isNaN))
    throw new Error('a counter of a billing record is no number');
  const sequences = [...known].flatMap(([name, value]): [number, number][] =>
    /^n\d+$/.test(name) ? [[Number(name.slice(1)), value]] : [],
  );
  const settings = fields['s'] ?? '';
  const state = hot && readAccountState(hot, bytes['t']);
  found.balances.push({
    billing,
    atMs,
    epoch,
    usedMicros: known.get('u') ?? 0,
    version: versionOf(settings),
    ...amounts,
    ...(state && { account: { untilMs: hot.untilMs, state } }),
    lacksSettings: state
      ? state.version !== versionOf(settings)
      : hasClasses(readRecord('billing', settings).limitMicros),
    counted: known.get('c') ?? 0,
    adjustment: known.get('a') ?? 0,
    sequences: new Map(sequences),
  });
}

function amountsOf({ usedMicros, heldMicros, totalMicros, expiredMicros }: HotAccount) {
  return { usedMicros, heldMicros, totalMicros, expiredMicros };
}
