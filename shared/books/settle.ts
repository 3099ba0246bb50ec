import { ApiError } from '../contract/errors.ts';
import { beginEvent } from '../events/event.ts';
import { mapLimited } from '../runtime/map-limited.ts';
import { withTimeout } from '../runtime/timeout.ts';
import type { Books } from '../stores/clickhouse.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { Query } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { newId } from '../values/ids.ts';
import { emptyBalance, type Balance, type FailedRecord } from './balances.ts';
import { billingKey, type BillingRef } from './billing-refs.ts';
import { lateUsage, readBooked, type BookedRecord } from './booked-records.ts';

/** Permission to write the balances of a shard: its fence, and the epoch that the balances are settled for. */
export type WriteGrant = (shard: number) => { fence: string; epoch: number };

export type SettleStores = { sql: Query; redis: ShardedRedis; books: Books };

/** By how much balances changed, and the records that failed alone; all other balances are settled. */
export type Settled = { changed: { billing: BillingRef; changeMicros: number }[]; failed: FailedRecord[] };

const WITHIN_MS = 2_000;
// A script of so many takes Redis about 100 µs.
const RECORDS_PER_SCRIPT = 16;
const PAGES_AT_ONCE = 8;
const PROBE_WITHIN_MS = 5_000;

/**
 * Sets the part of balances that comes from the books. It can run at any time and again, because it writes the whole part
 * and never adds to it. A record that fails alone does not hold up the others; it throws where a server fails.
 */
export async function settle(stores: SettleStores, balances: Balance[], grant: WriteGrant): Promise<Settled> {
  const { records, failed } = await readBooks(stores, balances);
  const asked = [...records].flatMap(([balance, booked]) => toSettle(balance, booked));
  const pages = [...Map.groupBy(asked, ({ billing }) => billing.shard).values()].flatMap(pagesOf);
  const outcomes = (await mapLimited(pages, PAGES_AT_ONCE, (page) => settlePage(stores.redis, page, grant))).flat();
  const changed = outcomes.filter((one) => one.changeMicros !== undefined && one.changeMicros !== 0);
  return {
    changed: changed.map(({ billing, changeMicros = 0 }) => ({ billing, changeMicros })),
    failed: [...failed, ...outcomes.filter((one) => 'error' in one).map(({ billing, error }) => ({ billing, error }))],
  };
}

/** The permission that open shards give while they are in the epochs of these balances. */
export function grantOfOpenShards(redis: ShardedRedis, balances: Balance[]): WriteGrant {
  const epochs = new Map(balances.map(({ billing, epoch }) => [billing.shard, epoch]));
  return (shard) => ({ fence: redis.node(shard).runId(), epoch: epochs.get(shard)! });
}

type FromBooks = { records: Map<Balance, BookedRecord>; failed: FailedRecord[] };

/** Reads what the books have of some records. Where that fails, it reads half of them at a time, down to those that fail alone. */
async function readBooks(stores: SettleStores, balances: Balance[]): Promise<FromBooks> {
  if (balances.length === 0) return { records: new Map(), failed: [] };
  try {
    const booked = await readBooked(stores, balances);
    return { records: new Map(balances.map((one) => [one, booked.get(one.billing.id)!])), failed: [] };
  } catch (error) {
    await requireBooks(stores, balances[0]!.epoch);
    if (balances.length === 1) return { records: new Map(), failed: [{ billing: balances[0]!.billing, error }] };
    const half = Math.ceil(balances.length / 2);
    const [first, second] = [
      await readBooks(stores, balances.slice(0, half)),
      await readBooks(stores, balances.slice(half)),
    ];
    return { records: new Map([...first.records, ...second.records]), failed: [...first.failed, ...second.failed] };
  }
}

// Ids of billing records have another form.
const NOBODY: BillingRef = { id: 'nobody', shard: 0, workspaceId: '', externalMeterId: '' };

/** Throws unless the books can be read at all: of a record that does not exist, in the same way as of others. */
async function requireBooks(stores: SettleStores, epoch: number): Promise<void> {
  await withTimeout(PROBE_WITHIN_MS, readBooked(stores, [emptyBalance(NOBODY, epoch)]));
}

/** A record that has something to be set, and the arguments that say so to the script. */
type ToSettle = { billing: BillingRef; args: (string | number)[] };

function toSettle(balance: Balance, booked: BookedRecord): ToSettle[] {
  const { billing } = balance;
  const { micros, events, from, to, adjustedMicros } = lateUsage(balance, booked);
  if (events <= balance.lateEvents && to === from && !balance.held) return [];
  const event = beginEvent({ kind: 'settlement', id: newId('evt'), billingId: billing.id });
  return [{ billing, args: [micros, events, from, to, adjustedMicros, booked.lastMicros ?? '', event] }];
}

function pagesOf(ofShard: ToSettle[]): ToSettle[][] {
  const count = Math.ceil(ofShard.length / RECORDS_PER_SCRIPT);
  return Array.from({ length: count }, (_, i) => ofShard.slice(i * RECORDS_PER_SCRIPT, (i + 1) * RECORDS_PER_SCRIPT));
}

type Outcome = { billing: BillingRef; changeMicros?: number; error?: unknown };

/** Settles records of one shard, and gives by how much each changed. Throws an ApiError where the server fails or the shard is closed. */
async function settlePage(redis: ShardedRedis, page: ToSettle[], grant: WriteGrant): Promise<Outcome[]> {
  const { shard } = page[0]!.billing;
  const node = redis.node(shard);
  const { fence, epoch } = grant(shard);
  const keys = [keyspace.meta(shard), keyspace.outbox(shard), ...page.map(({ billing }) => billingKey(billing))];
  const args = [fence, node.notAfter(WITHIN_MS), epoch, ...page.flatMap((one) => one.args)];
  const [status, , ...results] = await node.script('settle', keys, args, WITHIN_MS);
  if (status !== 'OK')
    throw new ApiError('redis_unavailable', { cause: new Error(`the settle script answered ${status}`) });
  return page.map(({ billing }, i) => {
    const [done, change] = results.slice(2 * i, 2 * i + 2);
    return done === 'OK' ? { billing, changeMicros: Number(change) } : { billing, error: new Error(change) };
  });
}
