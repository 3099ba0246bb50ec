import { readRows } from '../../../shared/stores/clickhouse.ts';
import type { Stores } from './fill-balances.ts';
import type { Claim } from './shard-claims.ts';

// The last day that the books can store.
const LAST_DAY = '2149-06-06';

/** Shards of one server with their next epochs, and whether one of their logs ends before what the books have of it. */
export type Begun = { epochs: Map<number, number>; isBehind: boolean };

/**
 * Gives each claimed shard its next epoch. Postgres counts epochs; the next one also lies above the epoch that survived
 * in the shard and, for an emptied shard, above those in the books: a repeated epoch could hide a lost event.
 */
export async function nextEpochs({ sql, books }: Stores, claims: Claim[]): Promise<Begun> {
  const inBooks = claims.some((claim) => claim.emptied) ? await lastEpochInBooks({ sql, books }) : 0;
  const rows = await sql<{ shard: number; epoch: number; isBehind: boolean | null }[]>`
    update shards set epoch = greatest(shards.epoch, survived.epoch) + 1
    from (select unnest(${claims.map((claim) => claim.shard)}::smallint[]) as shard,
                 unnest(${claims.map((claim) => (claim.emptied ? Math.max(claim.epoch, inBooks) : claim.epoch))}::bigint[]) as epoch,
                 unnest(${claims.map((claim) => claim.lastEntry)}::text[]) as last_entry) as survived
    where shards.shard = survived.shard
    returning shards.shard, shards.epoch, string_to_array(survived.last_entry, '-')::bigint[] < shards.booked_to as is_behind`;
  return {
    epochs: new Map(rows.map(({ shard, epoch }) => [shard, epoch])),
    isBehind: rows.some(({ isBehind }) => isBehind),
  };
}

/** Forgets up to where the books have these shards, whose logs begin anew. */
export async function beginLogs({ sql }: Pick<Stores, 'sql'>, shards: number[]): Promise<void> {
  if (shards.length > 0) await sql`update shards set booked_to = null where shard = any(${shards})`;
}

/** Reads days that are over from their sums: the events are many. */
async function lastEpochInBooks({ sql, books }: Pick<Stores, 'sql' | 'books'>): Promise<number> {
  const [marked] = await sql<[{ first: string | null }]>`select min(day) as first from usage_marks`;
  const [row] = await readRows<[epoch: number]>(
    books,
    `select max(epoch) from (
       select max(epoch) as epoch from booked_days
       union all select max(epoch) from usage_events where day >= {firstOpen:Date})`,
    { firstOpen: marked.first ?? LAST_DAY },
  );
  return row![0];
}
