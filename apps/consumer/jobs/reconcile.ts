import { billingRefsAfter } from '../../../shared/books/balances.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import { reconcile, tellLosses, type Reconciliation, type Stores } from '../../../shared/books/reconcile.ts';

const PATIENCE_MS = 30_000;
const RECORDS_AT_ONCE = 1_000;
// As long as a shard that was lost may take to come back, and the events of before to arrive.
const LOOK_BACK_MS = 15 * 60_000;

/** Compares all billing records; tells differences by log and metric, and what was found to be lost. */
export async function reconcileAll(stores: Stores, metrics: Metrics, log: Logger, signal: AbortSignal): Promise<void> {
  const count = { unlike: 0, undecided: 0 };
  let after = '';
  for (;;) {
    signal.throwIfAborted();
    const places = await billingRefsAfter(stores.sql, 'all', after, RECORDS_AT_ONCE);
    const results = await reconcile(stores, places, PATIENCE_MS);
    await tell(stores, results, metrics, log);
    count.unlike += results.filter(isUnlike).length;
    count.undecided += results.filter((one) => one.status === 'ON_ITS_WAY').length;
    after = places.at(-1)?.id ?? after;
    if (places.length < RECORDS_AT_ONCE) break;
  }
  metrics.unlikeRecords.set(count.unlike);
  metrics.undecidedRecords.set(count.undecided);
}

/** Compares the records of which verify processes remembered what Redis lost: soon after it, not at the next full hour. */
export async function reconcileLost(stores: Stores, metrics: Metrics, log: Logger, signal: AbortSignal): Promise<void> {
  const answer = await stores.books.client.query({
    query: `select distinct billing_id from usage_events
            where kind in ('witness', 'settlement') and inserted_at > now64(3) - toIntervalMillisecond({lookBackMs:UInt32})`,
    query_params: { lookBackMs: LOOK_BACK_MS },
    format: 'JSONCompactEachRow',
  });
  const ids = (await answer.json<[id: string]>()).map(([id]) => id);
  for (let i = 0; i < ids.length; i += RECORDS_AT_ONCE) {
    signal.throwIfAborted();
    const some = ids.slice(i, i + RECORDS_AT_ONCE);
    const places = await billingRefsAfter(stores.sql, { ids: some }, '', RECORDS_AT_ONCE);
    await tell(stores, await reconcile(stores, places, PATIENCE_MS), metrics, log);
  }
}

async function tell(stores: Stores, results: Reconciliation[], metrics: Metrics, log: Logger): Promise<void> {
  for (const { place, status, differenceMicros, gaps } of results.filter(isUnlike)) {
    const difference = formatCredits(differenceMicros);
    log.error(
      { billingId: place.id, status, difference, gaps },
      'the books and the balance of a billing record differ',
    );
  }
  for (const { place, loss } of await tellLosses(stores.sql, results)) {
    metrics.lostEvents.inc(loss.events);
    const credits = formatCredits(loss.micros ?? 0);
    metrics.lostMicros.inc(Math.max(0, loss.micros ?? 0));
    log.error(
      { billingId: place.id, events: loss.events, credits, epoch: loss.epoch, after: loss.afterNumber },
      'usage was lost with Redis',
    );
  }
}

function isUnlike({ status }: Reconciliation): boolean {
  return status === 'MISSING' || status === 'TOO_MUCH';
}
