import { ApiError } from '../../../shared/contract/errors.ts';
import { beginEvent } from '../../../shared/events/event.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';

type Adjustment = {
  id: string;
  billingId: string;
  number: number;
  amountMicros: number;
  usageName: string;
  day: string;
  reason: string;
  tokenId: string;
  shard: number;
  workspaceId: string;
  externalMeterId: string;
  /** Of the void of a grant. */
  grantId: string | null;
  class: number;
  voidNumber: number | null;
  beforeMicros: number;
  grantMicros: number;
};

const WITHIN_MS = 2_000;
// Each does a hundred steps of an account that has more due.
const CALLS = 100;
// About half a second; one with more before it waits for the next sweep.
const EARLIER_AT_ONCE = 500;

/**
 * Applies adjustments in the order of their numbers, including earlier ones that the record in Redis lacks. Gives the ids
 * of those that have to be applied again later, because the balance of their record is not known in Redis, or because many
 * are missing before them.
 */
export async function applyAdjustments(sql: Sql, redis: ShardedRedis, ids: string[]): Promise<Set<string>> {
  const notApplied = new Set<string>();
  const adjustments = await load(sql, ids);
  // One that waits holds up those after it of its record, and no other record.
  const waiting = new Set<string>();
  for (const adjustment of adjustments) {
    if (!waiting.has(adjustment.billingId)) {
      const done = await applyWithEarlier(sql, redis, adjustment);
      if (done.at(-1)?.id !== adjustment.id) waiting.add(adjustment.billingId);
    }
    if (waiting.has(adjustment.billingId)) notApplied.add(adjustment.id);
  }
  return notApplied;
}

/** Applies an adjustment, after some of those before it that are missing; gives what was applied, up to the first that was not. */
async function applyWithEarlier(sql: Sql, redis: ShardedRedis, adjustment: Adjustment): Promise<Adjustment[]> {
  const status = await apply(redis, adjustment);
  if (status === 'OK') return [adjustment];
  if (status === 'UNSETTLED') return [];
  const missing = await load(sql, await idsBetween(sql, adjustment, Number(status)));
  for (const [i, earlier] of missing.entries()) if ((await apply(redis, earlier)) !== 'OK') return missing.slice(0, i);
  return missing;
}

/** Applies one adjustment; returns OK, UNSETTLED, or the number of the last applied one if earlier ones are missing. */
async function apply(redis: ShardedRedis, adjustment: Adjustment): Promise<string> {
  const { id, billingId, number, amountMicros, usageName, day, reason, tokenId, shard, workspaceId } = adjustment;
  const node = redis.node(shard);
  const record = keyspace.billing(shard, workspaceId, adjustment.externalMeterId);
  const texts = { usageName, day, reason, actor: tokenId };
  const event = beginEvent({
    kind: 'adjustment',
    id,
    billingId,
    workspaceId,
    number,
    costMicros: amountMicros,
    ...texts,
  });
  const { grantId, class: from, voidNumber, beforeMicros, grantMicros } = adjustment;
  const voided = grantId === null ? [] : [voidNumber ?? from, from, beforeMicros, grantMicros];
  const adjust = () =>
    node.script(
      'adjust',
      [keyspace.meta(shard), record, keyspace.outbox(shard)],
      [node.runId(), node.notAfter(WITHIN_MS), number, amountMicros, event, ...voided],
      WITHIN_MS,
    );
  let [status = '', , last = ''] = await adjust();
  for (let calls = 1; status === 'AGAIN' && calls < CALLS; calls++) [status = '', , last = ''] = await adjust();
  if (status === 'ABSENT') return 'UNSETTLED';
  if (!['OK', 'UNSETTLED', 'EARLY'].includes(status)) throw failure(adjustment, status);
  return status === 'EARLY' ? last : status;
}

function failure({ number, billingId }: Adjustment, status: string): ApiError {
  const cause = new Error(`adjustment ${number} of ${billingId} was not applied: ${status}`);
  return new ApiError('redis_unavailable', { cause });
}

async function load(sql: Sql, ids: string[]): Promise<Adjustment[]> {
  return sql<Adjustment[]>`
    select a.id, a.billing_id, a.number, a.amount_micros, a.usage_name, a.day, a.reason, a.token_id,
           a.grant_id, a.class, a.void_number, a.before_micros, a.grant_micros,
           b.shard, b.workspace_id, b.external_meter_id
    from adjustments a join billing_records b on b.id = a.billing_id
    where a.id = any(${ids})
    order by a.billing_id, a.number`;
}

async function idsBetween(sql: Sql, { billingId, number }: Adjustment, last: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from adjustments where billing_id = ${billingId} and number > ${last} and number <= ${number}
    order by number limit ${EARLIER_AT_ONCE}`;
  return rows.map((row) => row.id);
}
