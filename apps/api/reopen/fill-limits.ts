import { readWindowedSums, type WindowedSums } from '../../../shared/books/sums/windowed-sums.ts';
import type { Limit } from '../../../shared/contract/limits.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { amountOf, knownLimits, packCounters, type KnownLimit } from '../../../shared/stores/known-limits.ts';
import type { LimitPlace } from '../../../shared/stores/limits.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { requireBooks, type WriteGrant } from '../../../shared/books/rebuilding/rebuild.ts';
import { byHalves } from '../../../shared/books/by-halves.ts';
import { batchesById } from '../sync/batches.ts';
import type { Stores } from './fill-balances.ts';

const FILL_WITHIN_MS = 2_000;

/**
 * Sets what limits of keys and billing records have counted in windows of the calendar to what the books have, in an emptied shard;
 * those that slide begin anew. What holds reserve is added to it when they come back. It costs a query for each page of those with limits, and where the books can't answer that, for halves of it.
 * Without what they have of one the shard stays closed: nothing would set its limits later.
 */
export async function fillLimits(stores: Stores, shard: number, grant: WriteGrant): Promise<void> {
  const fillSome = (owners: Owner[]) => fill(stores, shard, grant, owners);
  const probe = () => requireBooks(stores);
  for (const pages of [keysWithLimits(stores.sql, shard), recordsWithLimits(stores.sql, shard)])
    for await (const owners of pages) {
      const [failed] = await byHalves(owners, fillSome, probe);
      if (failed) throw new Error(`the limits of ${failed.item.id} can't be filled`, { cause: failed.error });
    }
}

/** A key, or the billing record itself. Its counters go by its name in Redis. */
type Owner = {
  id: string;
  name: string;
  workspaceId: string;
  billingId: string | null;
  limits: Limit[];
  place: LimitPlace;
};

async function fill(stores: Stores, shard: number, grant: WriteGrant, owners: Owner[]): Promise<void> {
  const node = stores.redis.node(shard);
  const nowMs = await node.now();
  const read = owners.map((owner) => ({ owner, limits: knownLimits(owner.place, owner.limits, nowMs) }));
  const sinceMs = read.flatMap(({ limits }) => limits.flatMap(({ span }) => span?.startMs ?? []));
  if (sinceMs.length === 0) return;
  const areKeys = owners[0]!.place !== 'billing';
  const sums = await readWindowedSums(stores.books, {
    workspaceIds: [...new Set(owners.map(({ workspaceId }) => workspaceId))],
    // A key had no record before it got its meter.
    billingIds: [...new Set([...(areKeys ? [''] : []), ...owners.flatMap(({ billingId }) => billingId ?? [])])],
    ...(areKeys && { keyIds: owners.map(({ id }) => id) }),
    sinceMs,
  });
  const filled = read.flatMap(({ owner, limits }) => {
    const levels = limits.map((limit) => levelOf(sums, owner.id, limit));
    return levels.some((level) => level > 0) ? [{ owner, ...packCounters(limits, levels, nowMs) }] : [];
  });
  if (filled.length === 0) return;
  const keys = [keyspace.meta(shard), ...filled.map(({ owner }) => keyspace.limits(shard, owner.name))];
  const counters = filled.flatMap(({ text, restMs }) => [text, restMs]);
  const args = [grant(shard).fence, node.notAfter(FILL_WITHIN_MS), ...counters];
  const [status] = await node.script('fill', keys, args, FILL_WITHIN_MS);
  if (status !== 'OK')
    throw new ApiError('redis_unavailable', { cause: new Error(`the fill script answered ${status}`) });
}

function levelOf(sums: WindowedSums, id: string, limit: KnownLimit): number {
  return limit.span ? amountOf(limit, sums(id, limit.span.startMs, limit.usageName)) : 0;
}

function keysWithLimits(sql: Sql, shard: number) {
  return batchesById<Owner>(
    (after, limit) => sql`
    select k.id, k.id as name, k.workspace_id, b.id as billing_id, coalesce(k.limits, w.default_limits) as limits,
           case when k.limits is null then 'workspace' else 'key' end as place
    from api_keys k join workspaces w on w.id = k.workspace_id and w.deleted_at is null
      left join billing_records b on b.workspace_id = k.workspace_id and b.external_meter_id = k.external_meter_id
    where k.shard = ${shard} and k.deleted_at is null and coalesce(k.limits, w.default_limits) is not null
      and k.id > ${after}
    order by k.id limit ${limit}`,
  );
}

function recordsWithLimits(sql: Sql, shard: number) {
  return batchesById<Owner>(
    (after, limit) => sql`
    select b.id, b.workspace_id || ':' || b.external_meter_id as name, b.workspace_id, b.id as billing_id, b.limits,
           'billing' as place
    from billing_records b join workspaces w on w.id = b.workspace_id and w.deleted_at is null
    where b.shard = ${shard} and b.limits is not null and b.id > ${after}
    order by b.id limit ${limit}`,
  );
}
