import { openShards } from '../../../shared/stores/fence.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { checkpointHistoryOf } from '../../../shared/stores/postgres-history.ts';
import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { WRITE_WITHIN_MS } from './change.ts';
import { loadShard } from './entries.ts';
import { writeEntries } from './sync.ts';

/**
 * How far Postgres has come: every transaction before `horizon` is over, and `change` is its last change. Transaction ids
 * of another `history` are not comparable.
 */
export type Position = { history: string; horizon: number; change: number };

const WITHIN_MS = 1_000;
// While a batch is written the next one is loaded, and a batch is written in three parts at most.
const LOADED_AHEAD = 6;

/** Reads how far Postgres has come. */
export async function postgresPosition(sql: Sql): Promise<Position> {
  const [row] = await orGiveUp(
    sql<[Position]>`
      select ${checkpointHistoryOf(sql)} as history,
             pg_snapshot_xmin(pg_current_snapshot())::text::bigint as horizon,
             coalesce((select max(id) from changes), 0) as change`,
  );
  return row;
}

/**
 * Advances the checkpoints to the oldest running transaction (xmin): every transaction below it is over and its rows are
 * visible, so when none of those rows waits, all shards hold every change up to there. Row ids would not do: they become
 * visible in another order than they are assigned. Adjustments may wait for long: every opening finds those that a shard
 * lacks by their numbers. So may what was put back: nothing but its own change, which is kept, writes what it is of. A shard with a checkpoint of another history keeps it: that it holds
 * what was changed before is not known.
 */
export async function moveCheckpoints(
  sql: Sql,
  redis: ShardedRedis,
  last: { history: string; horizon: number },
): Promise<{ history: string; horizon: number }> {
  const open = await openShards(redis, WITHIN_MS);
  const runIds = new Map([...open.keys()].map((shard) => [shard, redis.node(shard).runId()]));
  const [row] = await sql<[{ history: string; horizon: number; waiting: boolean; moved: boolean }]>`
    with snapshot as (select pg_snapshot_xmin(pg_current_snapshot()) as horizon)
    select ${checkpointHistoryOf(sql)} as history,
           horizon::text::bigint as horizon,
           exists (select from changes where applied_at is null and kind <> 'adjustment' and not is_put_back and tx < horizon) as waiting,
           exists (select from changes where tx >= ${String(last.horizon)}::text::xid8 and tx < horizon) as moved
    from snapshot`;
  if (row.waiting || (!row.moved && row.history === last.history)) return last;
  await Promise.all([...runIds].map(([shard, runId]) => setCheckpoint(redis, shard, runId, row)));
  return row;
}

/**
 * Gives one open shard whose checkpoint is of another history a checkpoint of this one, after writing everything in it:
 * otherwise it would be written while it is closed. Returns whether there was one.
 */
export async function adoptHistory(sql: Sql, redis: ShardedRedis): Promise<boolean> {
  const position = await postgresPosition(sql);
  const open = await openShards(redis, WITHIN_MS);
  const [shard] = [...open].find(([, { history }]) => history !== position.history) ?? [];
  if (shard === undefined) return false;
  const runId = redis.node(shard).runId();
  // What is written was read after the position, so it contains every change before the horizon.
  // The oldest counts from before what is written was loaded.
  const deadlines = [redis.node(shard).notAfter(WRITE_WITHIN_MS)];
  const grant = { fence: () => runId, change: 0, notAfter: () => deadlines[0]! };
  for await (const entries of loadShard(sql, shard)) {
    await writeEntries(sql, redis, grant, entries);
    deadlines.push(redis.node(shard).notAfter(WRITE_WITHIN_MS));
    if (deadlines.length > LOADED_AHEAD) deadlines.shift();
  }
  await setCheckpoint(redis, shard, runId, position, 'whole');
  return true;
}

async function setCheckpoint(
  redis: ShardedRedis,
  shard: number,
  runId: string,
  { history, horizon }: Omit<Position, 'change'>,
  written: 'changes' | 'whole' = 'changes',
): Promise<void> {
  const args = [runId, horizon, history, written];
  await redis.node(shard).script('checkpoint', [keyspace.meta(shard)], args, WITHIN_MS);
}
