import type { Query } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { readHeard } from '../../sync/accounts.ts';
import { billings, type Amounts, type BillingRow } from '../billings/billings.ts';
import { countBegun, type GrantMaker } from '../grants/classes.ts';
import { numbersBy, requireFewEnded } from '../grants/grants.ts';
import type { SayChanged } from '../record.ts';
import { set } from '../rows.ts';
import { givePlan, periodEnd } from './give.ts';
import { holdPlan } from './plans.ts';

type Changing = { sql: Query; redis: ShardedRedis; changed: SayChanged; maker: GrantMaker };

/** Gives a record that the transaction made its first plan; gives it as it is then. */
export async function startPlan(
  { sql, redis, changed, maker }: Changing,
  record: BillingRow,
  planId: string,
): Promise<BillingRow> {
  const plan = await holdPlan(sql, record.workspaceId, planId);
  const nowMs = await redis.node(record.shard).now();
  const { lines } = await givePlan(sql, record, plan, { maker, nowMs, limited: true });
  changed(...lines);
  return billings.require(sql, record.id, sql`true`);
}

/**
 * Gives a locked record the plan that a request names, or none, now or when its period ends; one that it has already stays, and is not
 * changed at the period's end; only `latest` gives it a later version of that. Gives what the record has afterwards, as far as that
 * changes.
 */
export async function changePlan(
  { sql, redis, changed, maker }: Changing,
  record: BillingRow,
  planId: string | null,
  { when, latest }: { when: 'now' | 'atPeriodEnd'; latest: boolean },
): Promise<Amounts | undefined> {
  const plan = planId === null ? undefined : await holdPlan(sql, record.workspaceId, planId);
  const account = await readHeard(redis, record);
  const { balance } = account;
  const { atMs } = balance;
  const assign = (values: Parameters<typeof set>[1]) =>
    sql`update billing_records set ${set(sql, values)} where id = ${record.id}`;
  if (record.planId === planId) {
    if (record.nextPlanAt !== null) await assign({ nextPlanId: null, nextPlanAt: null });
    if (!plan || !latest || record.planVersion === plan.version) return undefined;
  }
  // Asked for again, also after that end, before it was done: it stays as it was asked for.
  if (when === 'atPeriodEnd' && record.nextPlanAt !== null && record.nextPlanId === planId) return undefined;
  const endsAt = when === 'now' || record.planId === planId ? undefined : await periodEnd(sql, record.id, atMs);
  if (endsAt !== undefined) {
    const { tokenId: planTokenId, requestId: planRequestId } = maker;
    await assign({ nextPlanId: planId, nextPlanAt: endsAt, planTokenId, planRequestId });
    return undefined;
  }
  requireFewEnded(account);
  await countBegun(sql, record, atMs);
  const begunBefore = await begunMicros(sql, record.id);
  const { voided, lines } = await givePlan(sql, record, plan, { maker, nowMs: atMs, limited: true });
  changed(...lines);
  for (const { adjustmentId } of voided) changed({ resource: 'adjustment', id: adjustmentId, shards: [record.shard] });
  // As it will be once it is in force, which it is with the answer.
  const numbers = numbersBy(account);
  const lost = voided.map(({ row }) => (row.hasBegun ? numbers(row) : { leftMicros: 0, heldMicros: 0 }));
  const begun = (await begunMicros(sql, record.id)) - begunBefore;
  return {
    ...balance,
    totalMicros: (balance.totalMicros ?? record.totalMicros) + begun,
    expiredMicros: lost.reduce(
      (sum, { leftMicros, heldMicros }) => sum + leftMicros - heldMicros,
      balance.expiredMicros ?? 0,
    ),
  };
}

async function begunMicros(sql: Query, billingId: string): Promise<number> {
  const [row] = await sql<[{ micros: number }]>`
    select (total_micros + granted_micros)::bigint as micros from billing_records where id = ${billingId}`;
  return row.micros;
}
