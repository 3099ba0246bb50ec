import type { Sql } from '../../../shared/stores/postgres.ts';
import { historyOf, prunedJob } from '../../../shared/stores/postgres-history.ts';
import { inBatches } from '../sync/batches.ts';
import type { Entry, StoredChange } from '../sync/change.ts';
import type { Position } from '../sync/sweeper.ts';
import { writeEntries, type EntryGrant, loadChanged, loadShard } from '../sync/sync.ts';
import type { RebuildStores } from '../../../shared/books/rebuilding/rebuild.ts';
import type { Claim } from './shard-claims.ts';

// A Postgres that crashed may give out again ids of transactions that it had rolled back last.
const GIVEN_OUT_AGAIN = 1_000;

/**
 * Writes the changes that these shards missed since their checkpoints. Gives those that are up to date now: the checkpoint of another
 * does not tell, since it is of another history, names none, lies where this history has not come to yet, or before the oldest change
 * that Postgres still keeps.
 */
export async function writeMissing(
  { sql, redis }: RebuildStores,
  grant: EntryGrant,
  { history, horizon }: Position,
  claims: Claim[],
): Promise<Claim[]> {
  const comparable = claims.filter((claim) => claim.history === history && claim.checkpoint <= horizon);
  if (comparable.length === 0) return [];
  for await (const entries of loadSince(sql, comparable)) await writeEntries(sql, redis, grant, entries);
  // Look after reading: changes may have been pruned meanwhile.
  const [pruned] = await sql<
    { at: number }[]
  >`select at from job_watermarks where job = ${prunedJob('')} || ${historyOf(sql)}`;
  return comparable.filter(({ checkpoint }) => checkpoint > (pruned?.at ?? -1));
}

/** Writes everything that an empty shard needs. */
export async function writeWhole({ sql, redis }: RebuildStores, grant: EntryGrant, shard: number): Promise<void> {
  for await (const entries of loadShard(sql, shard)) await writeEntries(sql, redis, grant, entries);
}

async function* loadSince(sql: Sql, claims: Claim[]): AsyncGenerator<Entry[]> {
  const since = Math.max(0, Math.min(...claims.map((claim) => claim.checkpoint)) - GIVEN_OUT_AGAIN);
  const shards = claims.map((claim) => claim.shard);
  const batches = inBatches<StoredChange, number>(
    0,
    (change) => change.id,
    (after, limit) => sql`
    select id, kind, entity_id, shard from changes
    where tx >= ${String(since)}::text::xid8 and (shard is null or shard = any(${shards})) and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const changes of batches)
    for await (const entries of loadChanged(sql, changes)) yield entries.filter(({ shard }) => shards.includes(shard));
}
