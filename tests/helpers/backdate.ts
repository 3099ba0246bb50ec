import { EVENT_FIELD } from '../../shared/events/event.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';

// Events get their time from Redis's clock, and no test waits for a month to end. So a test makes real traffic while no
// consumer runs, and gives the events that wait another time before one carries them.

const WITHIN_MS = 15 * 60_000;

/** Gives every event that waits and was made lately a time: in their order, a millisecond after each other. */
export async function backdate(redis: ShardedRedis, atMs: number): Promise<number> {
  const since = Date.now() - WITHIN_MS;
  let moved = 0;
  for (const shard of ALL_SHARDS) {
    const { client } = redis.node(shard);
    const stream = keyspace.outbox(shard);
    for (const [id, [, value]] of (await client.xrangeBuffer(stream, '-', '+')) as [Buffer, [Buffer, Buffer]][]) {
      if (Number(id.toString().split('-')[0]) < since) continue;
      const text = value.toString('latin1');
      const dated = text.replace(/"t":(\d+)/g, (whole, ms) => (Number(ms) < since ? whole : `"t":${atMs + moved++}`));
      if (dated === text) continue;
      await client.xdel(stream, id);
      await client.xadd(stream, '*', EVENT_FIELD, Buffer.from(dated, 'latin1'));
    }
  }
  return moved;
}

/** Says that what was made lately in Postgres was made at an instant: a workspace, its records and refills. */
export async function backdateRows(sql: Sql, workspaceId: string, atMs: number): Promise<void> {
  const at = new Date(atMs);
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`update workspaces set created_at = ${at} where id = ${workspaceId} and created_at > now() - interval '1 hour'`;
    await tx`
      update credit_ledger l set created_at = ${at} from billing_records b
      where b.id = l.billing_id and b.workspace_id = ${workspaceId} and l.created_at > now() - interval '1 hour'`;
    await tx`
      update grants g set begins_at = ${atMs}, created_at = ${at} from billing_records b
      where b.id = g.billing_id and b.workspace_id = ${workspaceId} and g.created_at > now() - interval '1 hour'`;
    await tx`
      update billing_records set created_at = ${at} where workspace_id = ${workspaceId} and created_at > now() - interval '1 hour'`;
  });
}
