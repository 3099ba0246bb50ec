import type { StoredChange } from '../../apps/api/sync/change.ts';
import { applyChanges } from '../../apps/api/sync/sync.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import type { World } from './world.ts';

// Changes of a billing record that Postgres has and Redis has yet to hear of, as an api leaves them that dies after its commit. They
// are of a later time than now: the sweeper leaves them to the test.

/** The transaction that changed a record last. */
export async function lastChange({ sql }: World, id: string): Promise<string> {
  const [row] = await sql<[{ tx: string }]>`
    select tx::text from changes where entity_id = ${id} order by changes.tx desc limit 1`;
  return row.tx;
}

/** Redis has yet to hear of what a transaction changed. */
export async function unhear({ sql }: World, tx: string): Promise<void> {
  await sql`
    update changes set applied_at = null, created_at = now() + interval '1 hour' where tx = ${tx}::text::xid8`;
}

/** Redis hears of all changes of a record. */
export async function hear({ sql }: World, redis: ShardedRedis, id: string): Promise<void> {
  const changes = await sql<StoredChange[]>`
    select id, kind, entity_id, shard from changes
    where applied_at is null and tx in (select tx from changes where entity_id = ${id}) order by id`;
  await applyChanges(sql, redis, changes);
  await sql`update changes set applied_at = now() where id = any(${changes.map((change) => change.id)})`;
}
