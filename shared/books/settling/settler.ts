import type { Logger } from '../../runtime/log.ts';
import { startLoop, type Loop } from '../../runtime/loop.ts';
import type { Metrics } from '../../runtime/metrics.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { openShards } from '../../stores/fence.ts';
import type { Sql } from '../../stores/postgres.ts';
import type { ShardedRedis } from '../../stores/redis.ts';
import { findBalances, type FailedRecord } from '../balances.ts';
import { grantOfOpenShards, settle, type WriteGrant } from './settle.ts';
import { countUnsettled, postpone, removeSettled, takeUnsettled, type UnsettledRecord } from './unsettled-records.ts';

export type SettlerStores = { sql: Sql; redis: ShardedRedis; books: Books; log: Logger };

const LOOK_EVERY_MS = 1_000;
const LOOK_WITHIN_MS = 1_000;
const COUNT_EVERY_MS = 1_000;
// Half of what a query on the books costs is the query itself.
const RECORDS_AT_ONCE = 2_000;

/** Settles noted records on open shards, until stopped. Any number of processes may do so at a time. */
export function startSettler({ metrics, ...stores }: SettlerStores & { metrics: Metrics }): Loop {
  let countedAt = -Infinity;
  const loop = startLoop(stores.redis.clock, LOOK_EVERY_MS, stores.log, 'settling balances', async () => {
    const open = await openShards(stores.redis, LOOK_WITHIN_MS);
    if ((await settleDue(stores, [...open.keys()])) === RECORDS_AT_ONCE) loop.soon();
    if (stores.redis.clock.monotonic() - countedAt < COUNT_EVERY_MS) return;
    const { waiting, failing } = await countUnsettled(stores.sql);
    metrics.unsettledRecords.set(waiting);
    metrics.failingRecords.set(failing);
    countedAt = stores.redis.clock.monotonic();
  });
  return loop;
}

/**
 * Settles noted records of these shards, one page of those that are due; gives how many it took. The shards are open, or
 * closed to all but the builder that gives the grant.
 * 1. Take the notes. After a crash here they are due again some seconds later.
 * 2. Settle. Settled again, a balance stays as it is.
 * 3. Remove the notes, but for those that were noted again meanwhile. Records that failed alone wait for their next attempt.
 */
export async function settleDue(stores: SettlerStores, shards: number[], grant?: WriteGrant): Promise<number> {
  if (shards.length === 0) return 0;
  const notes = await takeUnsettled(stores.sql, shards, RECORDS_AT_ONCE);
  if (notes.length === 0) return 0;
  const failed = new Map((await settleNoted(stores, notes, grant)).map(({ billing, error }) => [billing.id, error]));
  await removeSettled(
    stores.sql,
    notes.filter(({ id }) => !failed.has(id)),
  );
  const failing = notes.filter(({ id }) => failed.has(id));
  await postpone(stores.sql, failing);
  for (const { id, attempts } of failing) {
    const why = { error: failed.get(id), billingId: id, attempts: attempts + 1 };
    stores.log.error(why, 'a billing record can not be settled now; it will be tried again');
  }
  return notes.length;
}

/** Settles records; gives those that failed alone. */
async function settleNoted(
  stores: SettlerStores,
  notes: UnsettledRecord[],
  grant: WriteGrant | undefined,
): Promise<FailedRecord[]> {
  const { redis, log } = stores;
  const { balances, held, corrupt } = await findBalances(redis, notes, grant && ((shard) => grant(shard).fence));
  const found = [...balances, ...held].map((one) => (grant ? { ...one, epoch: grant(one.billing.shard).epoch } : one));
  const { changed, failed } = await settle(stores, found, grant ?? grantOfOpenShards(redis, found));
  if (changed.length > 0)
    log.warn({ records: changed.length }, 'balances were behind the books and were set from them');
  const here = new Set([...found, ...corrupt].map(({ billing }) => billing.id));
  const absent = notes.filter(({ id }) => !here.has(id));
  const notHere = (billing: UnsettledRecord) => ({ billing, error: new Error('the record is not in Redis') });
  return [...corrupt, ...failed, ...absent.map(notHere)];
}
