import '../../../shared/runtime/require-node.ts';
import { abortAfter, systemClock } from '../../../shared/runtime/clock.ts';
import { billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { unprovedMeters } from '../../../shared/books/meters/proof.ts';
import { formatCredits, formatSum } from '../../../shared/values/credits.ts';
import type { MissingNumbers } from '../../../shared/books/reconciling/missing-numbers.ts';
import { reconcile, type Reconciliation } from '../../../shared/books/reconciling/reconcile.ts';
import { retry } from '../../../shared/runtime/retry.ts';
import { table } from '../../../shared/values/table.ts';
import { batchesById } from '../sync/batches.ts';
import { progressLine, runTool } from './tool.ts';

// Compares all billing records with their books: `npm run reconcile`. Exits with 1 if any differs, else with 2 if events
// were on their way for too long to decide, or if a balance or its books can't be read.
const PATIENCE_MS = 30_000;

await runTool('reconcile', async (stores) => {
  const [{ total }] = await stores.sql<[{ total: number }]>`select count(*) as total from billing_records`;
  const progress = progressLine();
  const counts = { EXACT: 0, MISSING: 0, TOO_MUCH: 0, ON_ITS_WAY: 0 };
  const lines: string[][] = [];
  let seen = 0;
  let unknown = 0;
  const records = batchesById<BillingRef>((after, most) => billingRefsAfter(stores.sql, 'all', after, most));
  for await (const refs of records) {
    // A store may pause, and right after a start shards are still closed.
    const results = await retry(systemClock, abortAfter(systemClock, PATIENCE_MS), stores.log, 'the comparison', () =>
      reconcile(stores, refs, PATIENCE_MS),
    );
    for (const result of results) {
      counts[result.status] += 1;
      lines.push(...linesOf(result));
    }
    const known = new Set(results.map(({ billing }) => billing.id));
    for (const { id } of refs.filter((ref) => !known.has(ref.id))) {
      unknown += 1;
      lines.push([id, 'can not be read', '', '', '']);
    }
    seen += refs.length;
    progress.show(() => `compared ${seen.toLocaleString('en')} of ${total.toLocaleString('en')} billing records`);
  }
  progress.end();
  let [metersDiffer, metersUnknown] = [0, 0];
  for await (const { destinationId, month, ...proof } of unprovedMeters(stores, systemClock.now())) {
    const { status } = proof;
    metersDiffer += Number(status === 'DIFFERENT');
    metersUnknown += Number(status === 'UNKNOWN');
    const parts =
      status === 'UNKNOWN'
        ? []
        : Object.entries({ missing: proof.difference, failed: proof.failed, waiting: proof.waiting });
    const told = parts.flatMap(([what, micros]) => (micros === 0n ? [] : [`${formatSum(micros)} ${what}`]));
    lines.push([destinationId, `${status} at an external meter in ${month}`, told.join(', '), '', '']);
  }
  if (lines.length > 0) console.log(table(['billing record', 'status', 'credits', 'events', 'between'], lines));
  const differing = counts.MISSING + counts.TOO_MUCH;
  console.log(
    `${counts.EXACT.toLocaleString('en')} exact, ${differing} differ, ${counts.ON_ITS_WAY} undecided because events were on their way` +
      (unknown > 0 ? `, ${unknown} whose balance or books can not be read` : ''),
  );
  return differing + metersDiffer > 0 ? 1 : counts.ON_ITS_WAY + unknown + metersUnknown > 0 ? 2 : 0;
});

function linesOf(result: Reconciliation) {
  const { billing, status, differenceMicros, heldDifferenceMicros, grants, missing, losses } = result;
  const lineOf = (what: string) => (gap: MissingNumbers) => [
    billing.id,
    what,
    gap.micros === undefined ? '' : formatCredits(gap.micros),
    String(gap.events),
    `${gap.epoch}/${gap.afterSequence} and ${gap.beforeSequence === undefined ? 'the end' : `${gap.epoch}/${gap.beforeSequence}`}`,
  ];
  const difference = status === 'EXACT' ? [] : [[billing.id, status, formatCredits(differenceMicros), '', '']];
  const partOf = (what: string, micros: number) =>
    status === 'EXACT' || micros === 0 ? [] : [[billing.id, what, formatCredits(micros), '', '']];
  const parts = [...partOf('  reserved', heldDifferenceMicros), ...partOf('  grants', grants?.differenceMicros ?? 0)];
  return [...difference, ...parts, ...missing.map(lineOf('  gap')), ...losses.map(lineOf('lost with Redis'))];
}
