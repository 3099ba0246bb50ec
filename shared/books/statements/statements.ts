import type { BillingRef } from '../billing-refs.ts';
import { reconcile, type Stores } from '../reconciling/reconcile.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { readExpired } from './expired.ts';
import { readGranted } from './grants.ts';
import { linesBefore, readLate, type LastLine, type Late, type LateMonth } from './lines.ts';
import { readLosses } from './losses.ts';
import { after, inOrder, nothing, type Balances, type ByName, type Movement, type Records } from './movements.ts';
import { proofOf, withDifference, type Proof } from './proof.ts';
import { dayIn, type Span } from './span.ts';
import { readUsageMovements, readUsed } from './usage.ts';

/** A statement of a record: what it began with, every movement, and what it ended with. */
export type Statement = {
  billingId: string;
  opening: Balances;
  movements: Movement[];
  closing: Balances;
  byName: ByName;
  proof: Proof;
};

/** Records of one workspace, and what their statements are about. */
export type Wanted = { workspaceId: string; billings: BillingRef[]; span: Span; nowMs: number; patienceMs: number };

/** Makes statements of some records, and tells which late months they have told all of. */
export async function makeStatements(
  stores: Stores,
  { workspaceId, billings, span, nowMs, patienceMs }: Wanted,
): Promise<{ statements: Statement[]; late: LateMonth[] }> {
  const { sql } = stores;
  const ids = billings.map(({ id }) => id);
  const proofs = await prove(stores, billings, patienceMs);
  const lines = await linesBefore(sql, ids, span.startMs);
  const statements: Statement[] = [];
  const told: LateMonth[] = [];
  // Nearly always all have a line of one month, or none.
  for (const [startMs, some] of Map.groupBy(ids, (id) => lines.get(id)?.endMs ?? 0)) {
    const of = { workspaceId, ids: some };
    const parts = await readParts(stores, of, { span, nowMs, since: startMs });
    for (const id of some)
      statements.push(statementOf(id, span, parts, { line: lines.get(id), proof: proofs.get(id)! }));
    // Of later months their own lines tell.
    told.push(...parts.open.filter(({ billingId, month }) => month <= lines.get(billingId)!.month));
  }
  return { statements, late: told };
}

type Parts = Awaited<ReturnType<typeof readParts>>;
type Since = { span: Span; nowMs: number; since: number };

async function readParts(stores: Stores, records: Records, { span, nowMs, since }: Since) {
  const { sql } = stores;
  const { ids, workspaceId } = records;
  const hasLines = since > 0;
  const gap: Span = {
    ...span,
    startMs: hasLines ? since : FIRST_MS,
    endMs: span.startMs,
    startDay: hasLines ? await endDayOf(sql, workspaceId, since) : FIRST_DAY,
    endDay: span.startDay,
  };
  const expired = await readExpired(stores, records, span, since);
  const granted = await readGranted(sql, ids, span, nowMs, expired.classes);
  const usedBefore = await readUsed(stores, records, gap);
  const { late, open } = hasLines
    ? await readLate(stores, records, since)
    : { late: new Map<string, Late[]>(), open: [] };
  const usage = await readUsageMovements(stores, records, span);
  const used = await readUsed(stores, records, span);
  const losses = await readLosses(sql, ids, span);
  return { granted, expired, usedBefore, late, open, usage, used, losses, nowMs };
}

function statementOf(
  id: string,
  span: Span,
  parts: Parts,
  { line, proof }: { line: LastLine | undefined; proof: Proof },
): Statement {
  const base = line?.closing ?? nothing;
  // What is late of months after this line is in their days, which are summed here.
  const late = (parts.late.get(id) ?? []).filter(({ month }) => line !== undefined && month <= line.month);
  const isBefore = ({ atMs }: Late) => atMs < span.startMs;
  const lateBefore = late.filter(isBefore).reduce((sum, { micros }) => sum + micros, 0);
  const granted = parts.granted.movements.get(id) ?? [];
  const total = parts.granted.totals.get(id) ?? 0;
  const opening: Balances = {
    totalMicros: line?.endMs === span.startMs ? base.totalMicros : total - sumOf(granted),
    usedMicros: base.usedMicros + (parts.usedBefore.get(id) ?? 0) + lateBefore,
    expiredMicros: base.expiredMicros + (parts.expired.before.get(id) ?? 0),
  };
  const { movements: usage, byName } = parts.usage.get(id) ?? { movements: [], byName: {} };
  const movements = [
    ...granted,
    ...(parts.expired.movements.get(id) ?? []),
    ...usage,
    ...late
      .filter((one) => !isBefore(one) && one.atMs < span.endMs)
      .map(({ atMs, ...one }): Movement => ({ ...one, day: dayIn(span, atMs), kind: 'late', balance: 'used' })),
    ...(parts.losses.get(id) ?? []),
  ];
  // What came to be known later of a time that is closed: grants are told when they are known.
  const reached = after(opening, movements);
  const expired = line && parts.expired.until.get(id);
  for (const [balance, micros] of [
    ['total', total - reached.totalMicros],
    ['expired', expired === undefined ? 0 : expired - reached.expiredMicros],
  ] as const)
    if (micros !== 0) movements.push({ day: span.startDay, kind: 'late', name: '', balance, micros });
  const closing = after(opening, movements);
  // Events arrive between two questions; the sum is that of the movements.
  const differs = (parts.used.get(id) ?? 0) - sumOf(usage);
  const isOver = span.endMs <= parts.nowMs;
  return {
    billingId: id,
    opening,
    movements: inOrder(movements),
    closing,
    byName,
    proof: isOver ? withDifference(proof, 'the sum of the usage and its movements', differs) : proof,
  };
}

async function prove(stores: Stores, billings: BillingRef[], patienceMs: number): Promise<Map<string, Proof>> {
  const { sql } = stores;
  const ids = billings.map(({ id }) => id);
  // Read first: an adjustment that is made meanwhile is not waited for.
  const rows = await sql<{ id: string; last: number }[]>`
    select id, last_adjustment as last from billing_records where id = any(${eachOf(sql, ids)})`;
  const found = new Map((await reconcile(stores, billings, patienceMs)).map((one) => [one.billing.id, one]));
  return new Map(rows.map(({ id, last }) => [id, proofOf(found.get(id), last)]));
}

// No event is older.
const FIRST_DAY = '2020-01-01';
const FIRST_MS = Date.parse(FIRST_DAY);

/** The first day after the closed month that ends at an instant. */
async function endDayOf(sql: Query, workspaceId: string, endMs: number): Promise<string> {
  const [row] = await sql<{ endDay: string }[]>`
    select end_day from workspace_months where workspace_id = ${workspaceId} and end_ms = ${endMs}`;
  return row?.endDay ?? FIRST_DAY;
}

function sumOf(movements: Movement[]): number {
  return movements.reduce((sum, { micros }) => sum + micros, 0);
}
