import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';
import { historyOf, prunedJob } from '../../../shared/stores/postgres-history.ts';
import { inBatches } from '../sync/batches.ts';
import type { Entry, StoredChange } from '../sync/change.ts';
import type { Position } from '../sync/sweeper.ts';
import { writeEntries, type EntryGrant, loadChanged, loadShard } from '../sync/sync.ts';
import type { OnProgress, Stores } from './fill-balances.ts';
import type { Claim } from './shard-claims.ts';

// A Postgres that crashed may give out again ids of transactions that it had rolled back last.
const GIVEN_OUT_AGAIN = 1_000;

/**
 * Writes the changes that these shards missed since their checkpoints. Gives the shards that need to be written whole,
 * because their checkpoint does not tell: it is of another history, names none, lies where this history has not come to
 * yet, or before the oldest change that Postgres still keeps.
 */
export async function writeMissing(
  stores: Stores,
  grant: EntryGrant,
  position: Position,
  claims: Claim[],
): Promise<Claim[]> {
  const { sql, redis } = stores;
  const { history, horizon } = position;
  const comparable = claims.filter((claim) => claim.history === history && claim.checkpoint <= horizon);
  for await (const entries of loadSince(sql, comparable)) await writeEntries(sql, redis, grant, entries);
  // Look after reading: changes may have been pruned meanwhile.
  const prunedUpTo = await lastPruned(sql);
  const current = new Set(comparable.filter(({ checkpoint }) => checkpoint > prunedUpTo));
  return claims.filter((claim) => !current.has(claim));
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

/** The highest transaction id of this history whose changes were pruned. */
async function lastPruned(sql: Sql): Promise<number> {
  const [pruned] = await orGiveUp(
    sql<{ at: number }[]>`select at from job_watermarks where job = ${prunedJob('')} || ${historyOf(sql)}`,
  );
  return pruned?.at ?? -1;
}

async function* loadSince(sql: Sql, claims: Claim[]): AsyncGenerator<Entry[]> {
  if (claims.length === 0) return;
  const since = Math.max(0, Math.min(...claims.map((claim) => claim.checkpoint)) - GIVEN_OUT_AGAIN);
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
