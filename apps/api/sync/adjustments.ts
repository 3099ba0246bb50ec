import type { PendingQuery, Row } from 'postgres';
import { ApiError } from '../../../shared/contract/errors.ts';
import { beginEvent } from '../../../shared/events/event.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import type { Change } from './change.ts';

type Stores = {
  sql: Query;
  redis: ShardedRedis;
  /** Writes an entity to Redis as Postgres has it now. */
  write: (changes: Change[]) => Promise<void>;
};

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
export async function applyAdjustments(stores: Stores, ids: string[]): Promise<Set<string>> {
  const { sql } = stores;
  const adjustments = await load(sql, sql`a.id = any(${ids})`);
  const notApplied = new Set<string>();
  // One that waits holds up those after it of its record, and no other record.
  for (const ofRecord of Map.groupBy(adjustments, ({ billingId }) => billingId).values()) {
    const last = await applyInOrder(stores, ofRecord);
    for (const { id, number } of ofRecord) if (number > last) notApplied.add(id);
  }
  return notApplied;
}

/** Applies adjustments of a record, after some of those before them that are missing; gives the number of the last applied one. */
async function applyInOrder({ sql, redis, write }: Stores, [first, ...rest]: Adjustment[]): Promise<number> {
  const { billingId, number, shard } = first!;
  const status = await apply(redis, first!);
  if (status === 'UNSETTLED') return 0;
  const isEarly = status !== 'OK';
  let last = isEarly ? status : number;
  const to = rest.at(-1)?.number ?? number;
  const isMissing = sql`a.billing_id = ${billingId} and a.number > ${last} and a.number <= ${to}`;
  const next = isEarly ? await load(sql, isMissing, EARLIER_AT_ONCE) : rest;
  // Others gave them, and may stand still before they write what these go by: settings that still declare a voided grant would begin it.
  if (isEarly) await write([{ kind: 'billing', entityId: billingId, shard }]);
  for (const one of next) {
    if ((await apply(redis, one)) !== 'OK') break;
    last = one.number;
  }
  return last;
}

/** Applies one adjustment, once; gives the number of the last applied one if earlier ones are missing. */
async function apply(redis: ShardedRedis, adjustment: Adjustment): Promise<'OK' | 'UNSETTLED' | number> {
  const { id, billingId, number, amountMicros, usageName, day, reason, tokenId, shard, workspaceId } = adjustment;
  const node = redis.node(shard);
  const record = keyspace.billing(shard, workspaceId, adjustment.externalMeterId);
  const told = { kind: 'adjustment', id, billingId, workspaceId, number, costMicros: amountMicros } as const;
  const event = beginEvent({ ...told, usageName, day, reason, actor: tokenId });
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
  if (status === 'OK') return 'OK';
  if (status === 'ABSENT' || status === 'UNSETTLED') return 'UNSETTLED';
  if (status === 'EARLY') return Number(last);
  const cause = new Error(`adjustment ${number} of ${billingId} was not applied: ${status}`);
  throw new ApiError('redis_unavailable', { cause });
}

async function load(sql: Query, which: PendingQuery<Row[]>, most: number | null = null): Promise<Adjustment[]> {
  return sql<Adjustment[]>`
    select a.id, a.billing_id, a.number, a.amount_micros, a.usage_name, a.day, a.reason, a.token_id,
           a.grant_id, a.class, a.void_number, a.before_micros, a.grant_micros,
           b.shard, b.workspace_id, b.external_meter_id
    from adjustments a join billing_records b on b.id = a.billing_id
    where ${which} order by a.billing_id, a.number limit ${most}`;
}
