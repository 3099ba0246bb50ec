import { lastOpenShards } from '../../../shared/stores/fence.ts';
import type { Sql, Transaction } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { SHARDS } from '../../../shared/values/key-text.ts';
import { TOMBSTONE_SECONDS, type Change } from './change.ts';
import { isPostgresStale } from './sweeper.ts';

const KEYS_AT_ONCE = 500;
const SCOPES_AT_ONCE = 100;

/**
 * Removes from Redis what was deleted: scopes, and workspaces with their keys. It writes a page of changes, which the sweeper
 * applies: so a crash loses nothing, and a shard that comes back older replays them. How far it came stands in Postgres, in the
 * transaction of those changes.
 */
export async function removeDeleted(sql: Sql, redis: ShardedRedis): Promise<void> {
  const [row] = await sql<[{ due: boolean }]>`select ${isSomethingDeleted(sql)} as due`;
  if (!row.due) return;
  if (!(await mayChange(sql, redis))) return;
  // Each is of one team: a transaction that waits for the counters of a second one could wait for ever.
  for (const remove of [removeKeys, removeScopes, removeWorkspace]) await sql.begin((tx) => remove(tx));
}

/** Whether there is something to remove, and the page before is applied: others' changes must not wait behind many of ours. */
export function isSomethingDeleted(sql: Sql) {
  return sql`
    not exists (
         select from changes
         where applied_at is null and kind <> 'adjustment' and created_at < now() - interval '30 seconds')
       and (exists (select from workspaces where deleted_at is not null and removed_at is null
                      and coalesce(keys_removed_at, '-infinity') < now() - ${TOMBSTONE_SECONDS}::int * interval '1 second')
         or exists (select from scopes where removed_at is null
                      and deleted_at < now() - ${TOMBSTONE_SECONDS}::int * interval '1 second'))`;
}

/** Removes the next keys of a deleted workspace, which refuses them already. */
async function removeKeys(tx: Transaction): Promise<void> {
  const [workspace] = await tx<{ id: string; keysRemovedTo: string }[]>`
    select id, keys_removed_to from workspaces
    where deleted_at is not null and removed_at is null and keys_removed_at is null
    order by deleted_at limit 1 for update skip locked`;
  if (!workspace) return;
  const keys = await tx<{ id: string; shard: number }[]>`
    select id, shard from api_keys where workspace_id = ${workspace.id} and id > ${workspace.keysRemovedTo}
    order by id limit ${KEYS_AT_ONCE}`;
  const pointers = await tx<{ id: string; shard: number }[]>`
    select key_id as id, pointer_shard as shard from key_texts
    where key_id = any(${keys.map(({ id }) => id)}) and pointer_shard is not null`;
  await recordNow(tx, 'key', [...keys, ...pointers]);
  await tx`
    update workspaces set keys_removed_to = ${keys.at(-1)?.id ?? workspace.keysRemovedTo},
      keys_removed_at = ${keys.length < KEYS_AT_ONCE ? tx`now()` : null}
    where id = ${workspace.id}`;
}

/**
 * Removes scopes of one team that were deleted so long ago that no late writer can fill their place: from the keys that were granted
 * them first, page by page, since a key's record names its scopes, and verify.lua takes one that is not there for damage.
 */
async function removeScopes(tx: Transaction): Promise<void> {
  const isDue = tx`deleted_at < now() - ${TOMBSTONE_SECONDS}::int * interval '1 second' and removed_at is null`;
  const scopes = await tx<{ id: string }[]>`
    select id from scopes
    where ${isDue} and team_id = (select team_id from scopes where ${isDue} order by deleted_at limit 1)
    order by deleted_at limit ${SCOPES_AT_ONCE} for update skip locked`;
  const ids = scopes.map(({ id }) => id);
  const keys = await tx<{ id: string; shard: number }[]>`
    with taken as (
      delete from key_grants where (key_id, scope_id) in (
        select key_id, scope_id from key_grants where scope_id = any(${ids}) and not of_deleted_key
        order by key_id, scope_id limit ${KEYS_AT_ONCE})
      returning key_id)
    select distinct k.id, k.shard from taken join api_keys k on k.id = taken.key_id`;
  if (keys.length > 0) return recordNow(tx, 'key', keys);
  await tx`update scopes set removed_at = now() where id = any(${ids})`;
  await recordNow(tx, 'scope', scopes);
}

/** Removes what is left of a workspace whose keys have left: its tombstone, and its scopes (at most a thousand). */
async function removeWorkspace(tx: Transaction): Promise<void> {
  const workspaces = await tx<{ id: string }[]>`
    update workspaces set removed_at = now() where id in (
      select id from workspaces
      where deleted_at is not null and removed_at is null
        and keys_removed_at < now() - ${TOMBSTONE_SECONDS}::int * interval '1 second'
      order by deleted_at limit 1 for update skip locked)
    returning id`;
  const scopes = await tx<{ id: string }[]>`
    update scopes set removed_at = now()
    where workspace_id = any(${workspaces.map(({ id }) => id)}) and removed_at is null
    returning id`;
  await recordNow(tx, 'scope', scopes);
  await recordNow(tx, 'workspace', workspaces);
}

/** Whether a job may change something. In a Postgres that was restored from a backup, it would hide that this is older than Redis. */
export async function mayChange(sql: Sql, redis: ShardedRedis): Promise<boolean> {
  const open = await lastOpenShards(redis);
  return open.size === SHARDS && !(await isPostgresStale(sql, redis));
}

/** Records changes that a job has made. Dated back, so that the sweeper applies them at once. */
export async function recordNow(
  tx: Transaction,
  kind: Change['kind'],
  rows: { id: string; shard?: number }[],
): Promise<void> {
  await tx`
    insert into changes (kind, entity_id, shard, created_at)
    select ${kind}, id, shard, now() - interval '1 minute'
    from unnest(${rows.map(({ id }) => id)}::text[], ${rows.map(({ shard }) => shard ?? null)}::smallint[]) as t (id, shard)`;
}
