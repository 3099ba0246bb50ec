import { ApiError } from '../../../shared/contract/errors.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { runPipeline } from '../../../shared/stores/pipeline.ts';
import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';
import type { RedisNode } from '../../../shared/stores/redis-node.ts';
import { inBatches } from '../sync/batches.ts';
import type { Entry, StoredChange } from '../sync/change.ts';
import { loadChanged, loadShard } from '../sync/entries.ts';
import { writeEntries, type EntryGrant } from '../sync/sync.ts';
import type { OnProgress, Stores } from './settle.ts';
import { STEP_WITHIN_MS, type Claim } from './shard-claims.ts';

/** Writes every entity that changed since the checkpoints of these shards. */
export async function writeChanges({ sql, redis }: Stores, grant: EntryGrant, claims: Claim[]): Promise<void> {
  for await (const entries of loadSince(sql, claims)) await writeEntries(sql, redis, grant, entries);
}

/** Writes everything that an empty shard needs. */
export async function writeWhole(
  { sql, redis }: Stores,
  grant: EntryGrant,
  shard: number,
  onProgress: OnProgress = () => {},
): Promise<void> {
  for await (const entries of loadShard(sql, shard)) {
    await writeEntries(sql, redis, grant, entries);
    onProgress(entries.length);
  }
}

/** Shards whose checkpoint lies before the oldest change that Postgres still keeps. */
export async function longOutdated(sql: Sql, claims: Claim[]): Promise<Claim[]> {
  const [pruned] = await orGiveUp(sql<{ at: number }[]>`select at from job_watermarks where job = 'changes_pruned'`);
  return claims.filter((claim) => claim.checkpoint <= (pruned?.at ?? -1));
}

/** Throws when a shard has seen a change that Postgres has not made: what it knows better must not be wiped. */
export async function refuseNewer(sql: Sql, node: RedisNode, claims: Claim[]): Promise<void> {
  if (claims.length === 0) return;
  const pipeline = node.client.pipeline();
  for (const { shard } of claims) pipeline.hget(keyspace.meta(shard), 'change');
  const seen = (await runPipeline(pipeline, STEP_WITHIN_MS)).map(Number);
  const [made] = await orGiveUp(sql<[{ last: number }]>`select last_value as last from changes_id_seq`);
  if (seen.some((change) => change > made.last)) throw new ApiError('postgres_stale');
}

/** How far Postgres has come: every transaction before `horizon` is over, and `change` is its last change. */
export async function postgresPosition(sql: Sql): Promise<{ horizon: number; change: number }> {
  const [row] = await orGiveUp(
    sql<[{ horizon: number; change: number }]>`
      select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as horizon,
             coalesce((select max(id) from changes), 0) as change`,
  );
  return row;
}

async function* loadSince(sql: Sql, claims: Claim[]): AsyncGenerator<Entry[]> {
  if (claims.length === 0) return;
  const since = Math.min(...claims.map((claim) => claim.checkpoint));
  const shards = claims.map((claim) => claim.shard);
  const wanted = new Set(shards);
  const batches = inBatches<StoredChange, number>(
    0,
    (change) => change.id,
    (after, limit) => sql`
    select id, kind, entity_id, shard from changes
    where tx >= ${String(since)}::text::xid8 and (shard is null or shard = any(${shards})) and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const changes of batches) {
    for await (const entries of loadChanged(sql, changes)) yield entries.filter((entry) => wanted.has(entry.shard));
  }
}
