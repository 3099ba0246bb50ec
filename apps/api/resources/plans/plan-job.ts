import type { Sql, Transaction } from '../../../../shared/stores/postgres.ts';
import { recordNow } from '../../sync/remove-deleted.ts';
import { readHeard } from '../../sync/accounts.ts';
import { billings, type BillingRow } from '../billings/billings.ts';
import { doDue, type Place, type Stores, type Turn } from '../grants/schedule-job.ts';
import { liftQuotas } from '../quotas.ts';
import { recordAudit } from '../record.ts';
import { givePlan } from './give.ts';
import { requireVersion } from './plans.ts';

const RECORDS_AT_ONCE = 100;
const OF_PLAN_AT_ONCE = 20;

/** Whether the plan of a record changes at an instant that has come, or one is being applied to its records. */
export function isPlanDue(sql: Sql) {
  return sql`
    exists (select from billing_records where next_plan_at <= extract(epoch from now()) * 1000)
    or exists (select from plans where applies_to is not null)`;
}

/**
 * Gives records the plans that are due: those whose period has ended, and those of each plan that is being applied, some of each in turns.
 * Each record is a transaction: its lock lets one process do it once, and one that dies has done all of it or nothing.
 */
export async function changeDuePlans(stores: Stores, stopping: AbortSignal): Promise<void> {
  const { sql } = stores;
  const turns = new Map<string, Turn<Place>>();
  const turnOf = (name: string, read: Turn<Place>['read']) =>
    turns.getOrInsertComputed(name, () => {
      return { what: 'billingId', after: { at: 0, id: '' }, read, do: (tx, { id }) => changeDue(tx, stores, id) };
    });
  const applied = () => sql<{ id: string }[]>`select id from plans where applies_to is not null order by id`;
  const all = async () => [
    turnOf('', (after) => endedAfter(sql, after)),
    ...(await applied()).map(({ id }) => turnOf(id, (after) => ofPlanAfter(sql, id, after))),
  ];
  if (!(await doDue(stores, all, stopping))) return;
  for (const { id } of await applied()) await sql.begin((tx) => finish(tx, id));
}

function endedAfter(sql: Sql, { at, id }: Place) {
  return sql<Place[]>`
    select next_plan_at as at, id from billing_records
    where next_plan_at <= extract(epoch from now()) * 1000 and (next_plan_at, id) > (${at}, ${id})
    order by next_plan_at, id limit ${RECORDS_AT_ONCE}`;
}

function ofPlanAfter(sql: Sql, planId: string, { at, id }: Place) {
  return sql<Place[]>`
    select plan_version as at, id from billing_records
    where plan_id = ${planId} and plan_version < (select applies_to from plans where id = ${planId})
      and (plan_version, id) > (${at}, ${id})
    order by plan_version, id limit ${OF_PLAN_AT_ONCE}`;
}

type DueRow = BillingRow & {
  teamId: string;
  planTokenId: string;
  planRequestId: string;
  deleted: boolean;
  isEnded: boolean;
};

/** Does what is due of a record, unless somebody has done it; throws where Redis has not heard of an earlier change of it. */
async function changeDue(tx: Transaction, { redis, metrics }: Stores, id: string): Promise<void> {
  const [row] = await tx<[DueRow]>`
    select ${billings.columns(tx)}, team_id, plan_token_id, plan_request_id,
           next_plan_at <= extract(epoch from now()) * 1000 as is_ended,
           exists (select from workspaces w where w.id = workspace_id and w.deleted_at is not null) as deleted
    from billing_records where id = ${id} for update`;
  const { teamId, planTokenId: tokenId, planRequestId: requestId, deleted, isEnded, ...record } = row;
  const target = await targetOf(tx, record, isEnded);
  if (!target) return;
  if (deleted) {
    // Nobody uses it any more.
    const version = isEnded ? record.planVersion : target.plan!.version;
    await tx`update billing_records set next_plan_id = null, next_plan_at = null, plan_version = ${version} where id = ${id}`;
    return;
  }
  const { atMs } = (await readHeard(redis, record)).balance;
  // By the clock that ends the period.
  if (isEnded && atMs < record.nextPlanAt!) return;
  // What was promised is given.
  await liftQuotas(tx);
  const giving = { maker: { teamId, tokenId, requestId, ...target.maker }, nowMs: atMs, limited: false };
  const { voided, lines } = await givePlan(
    tx,
    record,
    target.plan,
    isEnded ? { ...giving, anchorAt: record.nextPlanAt! } : giving,
  );
  const after = await billings.require(tx, id, tx`true`);
  const line = billings.recorded({ before: record, after });
  await recordAudit(tx, { teamId, tokenId: null, operation: 'plan', requestId: null }, [line, ...lines]);
  metrics.periodsNotGranted.inc(lines.filter(({ after = {} }) => 'notGranted' in after).length);
  await recordNow(tx, 'billing', [record]);
  const adjustments = voided.map(({ adjustmentId }) => ({ id: adjustmentId, shard: record.shard }));
  await recordNow(tx, 'adjustment', adjustments);
}

/** Which version of which plan a locked record is due to be given, and by whom if not by who said so last of the record. */
async function targetOf(tx: Transaction, { nextPlanId, planId, planVersion }: BillingRow, isEnded: boolean) {
  if (isEnded && nextPlanId === null) return { plan: undefined };
  const given = isEnded ? tx`id = ${nextPlanId}` : tx`id = ${planId} and applies_to > ${planVersion}`;
  // The version counts as given until the transaction ends (holdPlan).
  const [plan] = await tx<{ id: string; version: number }[]>`
    select id, ${isEnded ? tx`version` : tx`applies_to as version`} from plans where ${given} for key share`;
  if (!plan) return undefined;
  const [maker] = await tx<[{ tokenId: string; requestId: string }]>`
    select token_id, request_id from plan_versions where plan_id = ${plan.id} and version = ${plan.version}`;
  return {
    plan: { ...plan, settings: await requireVersion(tx, plan.id, plan.version) },
    maker: isEnded ? undefined : maker,
  };
}

/** A plan that all its records have is applied. While somebody gives it, that may be in an earlier version: it is looked at again. */
async function finish(tx: Transaction, planId: string): Promise<void> {
  const locked = await tx`select from plans where id = ${planId} for update skip locked`;
  if (locked.length === 0) return;
  // This statement sees what was committed until the lock was there.
  await tx`
    update plans p set applies_to = null
    where id = ${planId} and not exists (select from billing_records where plan_id = p.id and plan_version < p.applies_to)`;
}
