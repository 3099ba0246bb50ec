import { booksWatermark } from '../../events/watermark.ts';
import { startDueLoop, type DueLoop } from '../../stores/due-loops.ts';
import type { Metrics } from '../../runtime/metrics.ts';
import { openShards } from '../../stores/fence.ts';
import { findBalances } from '../balances.ts';
import { proveGrants } from '../reconciling/grant-proof.ts';
import { behindBooks, readBooked, showsAnother } from '../sums/booked.ts';
import { rebuild, setAside, type RebuildStores, type SetAside } from './rebuild.ts';
import { countUnsettled, removeSettled, someUnsettled, takeUnsettled } from './unsettled-records.ts';

const LOOK_WITHIN_MS = 1_000;
// Half of what a query on the books costs is the query itself.
const RECORDS_AT_ONCE = 2_000;
// A record that is set aside waits for what is on its way to the books: it must not be much.
const BOOKS_BEHIND_MS = 10_000;
// What the books have not got that long after all that is newer, they will not get.
const LOST_AFTER_MS = 30_000;

/** Rebuilds noted records of open shards, until stopped. Any number of processes may do so at a time. */
export function startRebuilder({ metrics, ...stores }: RebuildStores & { metrics: Metrics }): DueLoop {
  const { clock } = stores.redis;
  return startDueLoop({ clock, log: stores.log }, 'rebuilding balances', someUnsettled, async () => {
    const { waiting, failing } = await countUnsettled(stores.sql);
    metrics.unsettledRecords.set(waiting);
    metrics.failingRecords.set(failing);
    // Nearly always nobody waits: then neither Redis nor the books are asked.
    if (waiting > 0 && (await rebuildNoted(stores)) === RECORDS_AT_ONCE) return 0;
  });
}

/**
 * Rebuilds noted records of open shards, one page of those that are due; gives how many it took: none while the books are behind.
 * 1. Take the notes. After a crash here they are due again some seconds later.
 * 2. Set aside those whose balance lacks what the books have, differs from them by grants or in their last line, or is not known;
 *    their calls get 503.
 * 3. Rebuild these once the books have all that they had given.
 * 4. Remove the notes, but for those that were noted again: meanwhile, or since they failed alone.
 */
export async function rebuildNoted(stores: RebuildStores): Promise<number> {
  const { sql, redis, log } = stores;
  const open = await openShards(redis, LOOK_WITHIN_MS);
  const watermarkMs = await booksWatermark(sql);
  const nowMs = await redis.now();
  if (open.size === 0 || watermarkMs < nowMs - BOOKS_BEHIND_MS) return 0;
  const notes = await takeUnsettled(sql, [...open.keys()], RECORDS_AT_ONCE);
  if (notes.length === 0) return 0;
  const { balances, unknown } = await findBalances(redis, notes);
  const booked = await readBooked(
    stores,
    balances.map((balance) => ({ ...balance.billing, counted: balance })),
  );
  const compared = balances.map((balance) => ({ balance, booked: booked.get(balance.billing.id)! }));
  // Of an adjustment the books may have got the line of another time that it was applied, which draws on other grants.
  const proofs = await proveGrants(sql, compared);
  const behind = compared.filter(
    ({ balance, booked }) =>
      behindBooks(balance, booked) > 0 ||
      showsAnother(balance, booked) ||
      proofs.get(balance.billing.id)?.differenceMicros,
  );
  const grant = (shard: number) => ({ fence: redis.node(shard).runId(), epoch: open.get(shard)!.epoch });
  const wanted = [...unknown, ...behind.map(({ balance }) => balance.billing)];
  // A watermark from before the clock was set back says nothing of what was given since.
  const isLost = ({ sinceMs }: SetAside) => watermarkMs <= nowMs && watermarkMs > sinceMs + LOST_AFTER_MS;
  const records = (await setAside(redis, wanted, grant)).map((record) =>
    isLost(record) ? { ...record, sequence: 0, adjustment: 0 } : record,
  );
  if (records.length > 0) log.warn({ records: records.length }, 'balances behind the books are rebuilt from them');
  await rebuild(stores, records, grant);
  await removeSettled(sql, notes);
  return notes.length;
}
