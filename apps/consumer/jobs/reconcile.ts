import { billingRefsAfter } from '../../../shared/books/billing-refs.ts';
import { wronglyBilledDays } from '../../../shared/books/billed.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import { reconcile, storeLosses, type Reconciliation, type Stores } from '../../../shared/books/reconcile.ts';

const PATIENCE_MS = 30_000;
const RECORDS_AT_ONCE = 1_000;
// As long as a lost shard may take to come back, and its earlier events to arrive.
const LOOK_BACK_MS = 15 * 60_000;

/** Compares all billing records with the books, and reports differences and losses in the log and the metrics. */
export async function reconcileAll(stores: Stores, metrics: Metrics, log: Logger, signal: AbortSignal): Promise<void> {
  const count = { differing: 0, undecided: 0 };
  let after = '';
  for (;;) {
    signal.throwIfAborted();
    const billings = await billingRefsAfter(stores.sql, 'all', after, RECORDS_AT_ONCE);
    const results = await reconcile(stores, billings, PATIENCE_MS);
    await report(stores, results, metrics, log);
    count.differing += results.filter(differs).length;
    count.undecided += results.filter((one) => one.status === 'ON_ITS_WAY').length;
    after = billings.at(-1)?.id ?? after;
    if (billings.length < RECORDS_AT_ONCE) break;
  }
  metrics.unlikeRecords.set(count.differing);
  metrics.undecidedRecords.set(count.undecided);
}

/** Compares the records that a loss of Redis may concern, soon after it and not only once an hour. */
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
    const billings = await billingRefsAfter(stores.sql, { ids: some }, '', RECORDS_AT_ONCE);
    await report(stores, await reconcile(stores, billings, PATIENCE_MS), metrics, log);
  }
}

async function report(stores: Stores, results: Reconciliation[], metrics: Metrics, log: Logger): Promise<void> {
  for (const { billing, status, differenceMicros, missing, bookedMicros, billedMicros } of results.filter(differs)) {
    const difference = formatCredits(differenceMicros);
    if (bookedMicros !== billedMicros) await sumUpAgain(stores, billing.id);
    log.error(
      { billingId: billing.id, status, difference, gaps: missing },
      'the books and the balance of a billing record differ',
    );
  }
  for (const { billing, loss } of await storeLosses(stores.sql, results)) {
    metrics.lostEvents.inc(loss.events);
    const credits = formatCredits(loss.micros ?? 0);
    metrics.lostMicros.inc(Math.max(0, loss.micros ?? 0));
    log.error(
      { billingId: billing.id, events: loss.events, credits, epoch: loss.epoch, after: loss.afterSequence },
      'usage was lost with Redis',
    );
  }
}

/** Marks the days of a record that `/usage` bills wrongly: they are then summed from their events, and rolled up again. */
async function sumUpAgain({ sql, books }: Stores, id: string): Promise<void> {
  const marked = await sql<{ day: string }[]>`select day from usage_marks where billing_id = ${id}`;
  const days = await wronglyBilledDays(books, { id, openDays: marked.map(({ day }) => day) });
  await sql`
    insert into usage_marks (billing_id, day) select ${id}, unnest(${days}::date[])
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
}

function differs({ status }: Reconciliation): boolean {
  return status === 'MISSING' || status === 'TOO_MUCH';
}
