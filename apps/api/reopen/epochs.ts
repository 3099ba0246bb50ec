import type { Stores } from './settle.ts';
import type { Claim } from './shard-claims.ts';

// The last day that the books can store.
const LAST_DAY = '2149-06-06';

/**
 * Gives each claimed shard its next epoch. Postgres counts epochs; the next one also lies above the epoch that survived
 * in the shard and, for an emptied shard, above those in the books: a repeated epoch could hide a lost event. It also
 * stores from where on the books have to be looked through for records that a kept shard is behind with, so that this
 * outlives the process that reopens it.
 */
export async function nextEpochs({ sql, books }: Stores, claims: Claim[]): Promise<Map<number, number>> {
  const inBooks = claims.some((claim) => claim.emptied) ? await lastEpochInBooks({ sql, books }) : 0;
  const rows = await sql<{ shard: number; epoch: number }[]>`
    update shards set
      epoch = greatest(shards.epoch, survived.epoch) + 1,
      behind_since = case when survived.since is not null then least(shards.behind_since, survived.since) end,
      behind_from_epoch = case when survived.since is not null then least(shards.behind_from_epoch, survived.epoch) end
    from (select unnest(${claims.map((claim) => claim.shard)}::smallint[]) as shard,
                 unnest(${claims.map((claim) => (claim.emptied ? Math.max(claim.epoch, inBooks) : claim.epoch))}::bigint[]) as epoch,
                 unnest(${claims.map((claim) => (claim.emptied ? null : claim.sinceMs))}::bigint[]) as since) as survived
    where shards.shard = survived.shard
    returning shards.shard, shards.epoch`;
  return new Map(rows.map((row) => [row.shard, row.epoch]));
}

/** Reads days that are over from their sums: the events are many. */
async function lastEpochInBooks({ sql, books }: Pick<Stores, 'sql' | 'books'>): Promise<number> {
  const [marked] = await sql<[{ first: string | null }]>`select min(day) as first from usage_marks`;
  const answer = await books.client.query({
    query: `select max(epoch) from (
              select max(epoch) as epoch from booked_days
              union all select max(epoch) from usage_events where day >= {firstOpen:Date})`,
    query_params: { firstOpen: marked.first ?? LAST_DAY },
    format: 'JSONCompactEachRow',
  });
  const [row] = await answer.json<[epoch: number]>();
  return row![0];
}
