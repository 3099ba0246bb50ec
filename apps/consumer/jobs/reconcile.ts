import { findBalances } from '../../../shared/books/balances.ts';
import { unprovedMeters } from '../../../shared/books/meters/proof.ts';
import { billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { formatCredits, formatSum } from '../../../shared/values/credits.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { WebhookEvent } from '../../../shared/contract/webhook-events.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { notifyWebhooks } from '../../../shared/stores/notify-webhooks.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import { storeLosses } from '../../../shared/books/reconciling/missing-numbers.ts';
import { reconcile, type Reconciliation, type Stores } from '../../../shared/books/reconciling/reconcile.ts';
import { noteProofs, noteProved } from '../../../shared/books/reconciling/unproved-records.ts';
import { noteUnsettled } from '../../../shared/books/rebuilding/unsettled-records.ts';
import { markDays } from '../../../shared/stores/usage-marks.ts';

const PATIENCE_MS = 30_000;
const RECORDS_AT_ONCE = 1_000;

/** Compares all billing records with the books, and reports differences and losses. */
export async function reconcileAll(stores: Stores, metrics: Metrics, log: Logger, signal: AbortSignal): Promise<void> {
  const beganMs = stores.redis.clock.now();
  let after = '';
  for (;;) {
    signal.throwIfAborted();
    const billings = await billingRefsAfter(stores.sql, 'all', after, RECORDS_AT_ONCE);
    const results = await reconcile(stores, billings, PATIENCE_MS, signal);
    await report(stores, results, metrics, log);
    await noteProofs(stores.sql, billings, results);
    await noteBehind(stores, billings, results);
    after = billings.at(-1)?.id ?? after;
    if (billings.length < RECORDS_AT_ONCE) break;
  }
  await noteProved(stores.sql, beganMs);
  for await (const { destinationId, month, ...proof } of unprovedMeters(stores, beganMs, signal)) {
    const of = { destinationId, month };
    if (proof.status === 'UNKNOWN') log.warn({ ...of, error: proof.error }, 'an external meter can not be proved now');
    if (proof.status !== 'DIFFERENT') continue;
    const told = { ...of, difference: formatSum(proof.difference), failed: formatSum(proof.failed) };
    log.error(told, 'what an external meter was told differs from the books');
  }
}

/** Notes records to be rebuilt: should their note have been lost, with a Postgres that was restored or a consumer that died, nobody would. */
async function noteBehind({ sql, redis }: Stores, billings: BillingRef[], results: Reconciliation[]): Promise<void> {
  const { unknown } = results.length < billings.length ? await findBalances(redis, billings) : { unknown: [] };
  const undecided = results
    .filter(({ status, grants }) => status === 'ON_ITS_WAY' || (grants?.differenceMicros ?? 0) !== 0)
    .map(({ billing }) => billing);
  const ids = [...unknown, ...undecided].map(({ id }) => id);
  await noteUnsettled(sql, ids);
}

async function report(stores: Stores, results: Reconciliation[], metrics: Metrics, log: Logger): Promise<void> {
  for (const result of results.filter(differs)) {
    const { billing, status, missing, wrongDays } = result;
    const difference = formatCredits(result.differenceMicros);
    const heldDifference = formatCredits(result.heldDifferenceMicros);
    // Until they are rolled up again, `/usage` sums them from their events.
    const { id: billingId, workspaceId } = billing;
    const days = wrongDays.map(({ day }) => ({ workspaceId, billingId, day }));
    await markDays(stores.sql, days);
    log.error(
      { billingId, status, difference, heldDifference, grants: result.grants, gaps: missing },
      'the books and the balance of a billing record differ',
    );
    await tellDifference(stores.sql, result, stores.redis.clock.now());
  }
  for (const { billing, status, losses } of results) {
    if (status !== 'EXACT' || losses.length === 0) continue;
    for (const { events, micros, epoch, afterSequence } of await storeLosses(stores.sql, billing.id, losses)) {
      metrics.lostEvents.inc(events);
      metrics.lostMicros.inc(Math.max(0, micros ?? 0));
      const credits = formatCredits(micros ?? 0);
      log.error({ billingId: billing.id, events, credits, epoch, after: afterSequence }, 'usage was lost with Redis');
    }
  }
}

/** Tells webhooks once of a difference: another look at it finds the same. */
async function tellDifference(sql: Query, result: Reconciliation, atMs: number): Promise<void> {
  const { billing, differenceMicros, heldDifferenceMicros, status, grants } = result;
  const { id: billingId, workspaceId, externalMeterId } = billing;
  const [record] = await sql<{ teamId: string }[]>`select team_id from billing_records where id = ${billingId}`;
  if (!record) return;
  const grantsMicros = grants?.differenceMicros ?? 0;
  const event: WebhookEvent = {
    type: 'books.different',
    teamId: record.teamId,
    workspaceId,
    subjectId: billingId,
    cause: `${status} ${differenceMicros} ${heldDifferenceMicros} ${grantsMicros}`,
    atMs,
    data: {
      billingId,
      externalMeterId,
      status: status === 'MISSING' ? 'MISSING' : 'TOO_MUCH',
      difference: formatCredits(differenceMicros),
      heldDifference: formatCredits(heldDifferenceMicros),
      ...(grantsMicros !== 0 && { grantsDifference: formatCredits(grantsMicros) }),
    },
  };
  await notifyWebhooks(sql, [event]);
}

function differs({ status }: Reconciliation): boolean {
  return status === 'MISSING' || status === 'TOO_MUCH';
}
