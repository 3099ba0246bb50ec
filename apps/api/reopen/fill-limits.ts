import type { Limit } from '../../../shared/contract/limits.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { amountOf, knownLimits, packCounters, type KnownLimit } from '../../../shared/stores/known-limits.ts';
import type { LimitPlace } from '../../../shared/stores/limits.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { byHalves } from '../../../shared/books/by-halves.ts';
import { requireBooks, type RebuildStores, type WriteGrant } from '../../../shared/books/rebuilding/rebuild.ts';
import { sum } from '../../../shared/books/sums/booked.ts';
import { readCounted } from '../../../shared/books/sums/counted-by-limits.ts';
import { batchesById } from '../sync/batches.ts';

const FILL_WITHIN_MS = 2_000;

/**
 * Sets what limits of keys and billing records have counted in windows of the calendar to what the books have, in an emptied shard;
 * those that slide begin anew. What holds reserve is added to it when they come back. It costs a query for each page of those with
 * limits, and where the books can't answer that, for halves of it. Without what the books have of one the shard stays closed: nothing
 * would set its limits later.
 */
export async function fillLimits(stores: RebuildStores, shard: number, grant: WriteGrant): Promise<void> {
  for (const [pages, column] of [
    [keysWithLimits(stores.sql, shard), 'key_id'],
    [recordsWithLimits(stores.sql, shard), 'billing_id'],
  ] as const)
    for await (const owners of pages) {
      const fillSome = (some: Owner[]) => fill(stores, shard, grant, some, column);
      const [failed] = await byHalves(owners, fillSome, () => requireBooks(stores));
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

async function fill(
  stores: RebuildStores,
  shard: number,
  grant: WriteGrant,
  owners: Owner[],
  column: 'key_id' | 'billing_id',
): Promise<void> {
  const node = stores.redis.node(shard);
  const nowMs = await node.now();
  const read = owners.map((owner) => ({ owner, limits: knownLimits(owner.place, owner.limits, nowMs) }));
  const startsMs = new Set(read.flatMap(({ limits }) => limits.flatMap(({ span }) => span?.startMs ?? [])));
  if (startsMs.size === 0) return;
  const starts = [...startsMs].toSorted((a, b) => a - b);
  const rows = await readCounted(stores.books, column, {
    workspaceIds: [...new Set(owners.map(({ workspaceId }) => workspaceId))],
    // A key had no record before it got its meter.
    billingIds: [...new Set(owners.flatMap(({ billingId }) => ['', billingId ?? '']))],
    owners: owners.map(({ id }) => id),
    starts,
  });
  const byOwner = Map.groupBy(rows, ([id]) => id);
  const levelOf = (id: string, limit: KnownLimit) => {
    const { span, usageName } = limit;
    if (!span) return 0;
    const counted = (byOwner.get(id) ?? []).filter(
      ([, name, passed]) => Number(passed) > starts.indexOf(span.startMs) && name === (usageName ?? name),
    );
    return sum(
      counted.map(([, , , events, micros]) => amountOf(limit, { events: Number(events), micros: Number(micros) })),
    );
  };
  const filled = read.flatMap(({ owner, limits }) => {
    const levels = limits.map((limit) => levelOf(owner.id, limit));
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
