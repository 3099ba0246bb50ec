import { ApiError } from '../../../shared/contract/errors.ts';
import { lastKnown, lastOpenShards, openShards, readShards } from '../../../shared/stores/fence.ts';
import { SHARDS } from '../../../shared/values/key-text.ts';
import type { Query, Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { type StoredChange, WRITE_WITHIN_MS } from './change.ts';
import { applyChanges, writeEntries, loadShard } from './sync.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { checkpointHistoryOf } from '../../../shared/stores/postgres-history.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';

const CHECKPOINT_EVERY_MS = 9_000;
const CHANGES_AT_ONCE = 500;
const LOOK_WITHIN_MS = 1_000;
// After this and the shard at hand it sweeps again, so that changes do not wait for all shards.
const ADOPT_FOR_MS = 500;

/**
 * Applies changes whose process died, or lost Redis, between the commit and the apply; also advances the checkpoints. It does nothing
 * while Postgres is older than Redis: then an operator must decide.
 */
export function makeSweeper(sql: Sql, redis: ShardedRedis, watch: StalePostgresWatch) {
  let newest = 0;
  let stale = false;
  let checkpoint = { history: '', horizon: 0 };
  let checkpointed = 0;
  let adopting = true;
  async function work(): Promise<void> {
    // Fewer are all that were due: what has to wait is due again later, and must not keep this from its other work.
    while ((await sweep(sql, redis)) === CHANGES_AT_ONCE);
    const nowMs = redis.clock.monotonic();
    if (nowMs - checkpointed > CHECKPOINT_EVERY_MS) {
      checkpoint = await moveCheckpoints(sql, redis, checkpoint);
      checkpointed = nowMs;
      adopting = true;
    }
    const adoptUntil = redis.clock.monotonic() + ADOPT_FOR_MS;
    while (adopting && redis.clock.monotonic() < adoptUntil) adopting = await adoptHistory(sql, redis);
  }
  return {
    async sweepAll(): Promise<void> {
      stale = await isPostgresStale(sql, redis);
      newest = newestOf(await lastKnown(redis));
      try {
        if (!stale) await work();
      } catch (error) {
        if (!(error instanceof ApiError) || error.errorName !== 'postgres_stale') throw error;
        stale = true;
      }
      watch.note(stale);
    },
    /** Whether a change waits, or a shard of another history; or Postgres is older than what Redis had at the last sweep, or was older then. */
    isDue: (sql: Sql) => sql`
      exists (select from changes where ${isLeft(sql)}) or ${stale || adopting}::boolean
      or ${lastChange(sql)} < ${newest}::bigint`,
  };
}

/** Older than any request. */
function isLeft(sql: Sql) {
  return sql`applied_at is null and created_at < now() - interval '3 seconds'`;
}

/**
 * Applies waiting changes that are older than any request; returns how many. Two sweepers may apply the same changes
 * without harm.
 */
export async function sweep(sql: Sql, redis: ShardedRedis): Promise<number> {
  const open = await lastOpenShards(redis);
  // Changes for a closed shard must not hold up the others.
  const waiting = await sql<StoredChange[]>`
    select id, kind, entity_id, shard from changes
    where ${isLeft(sql)}
      and (shard = any(${[...open.keys()]}) or (shard is null and ${open.size === SHARDS}))
    order by id limit ${CHANGES_AT_ONCE}`;
  if (waiting.length === 0) return 0;
  const held = new Set((await applyChanges(sql, redis, waiting)).map((change) => change.id));
  const applied = waiting.map((change) => change.id).filter((id) => !held.has(id));
  // Checkpoints pass what was put back while it waits. One from before its write vouches for nothing of it: it counts from now.
  await sql`
    update changes set applied_at = now(), tx = case when is_put_back then pg_current_xact_id() else tx end
    where id = any(${applied})`;
  // Those that have to wait come again in some seconds; meanwhile they don't hold up the others.
  if (held.size > 0) await sql`update changes set created_at = now() where id = any(${[...held]})`;
  return waiting.length;
}

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
  const [row] = await sql<[Position]>`
    select ${checkpointHistoryOf(sql)} as history,
           pg_snapshot_xmin(pg_current_snapshot())::text::bigint as horizon,
           ${lastChange(sql)} as change`;
  return row;
}

/**
 * Advances the checkpoints to the oldest running transaction (xmin): every transaction below it is over and its rows are
 * visible, so when none of those rows waits, all shards hold every change up to there. Row ids would not do: they become
 * visible in another order than they are assigned. Adjustments may wait for long: every opening applies the last ones
 * again. So may what was put back: nothing but its own change, which is kept, writes what it is of. A shard with a checkpoint of another history keeps it: that it holds
 * what was changed before is not known.
 */
export async function moveCheckpoints(
  sql: Sql,
  redis: ShardedRedis,
  last: { history: string; horizon: number },
): Promise<{ history: string; horizon: number }> {
  const open = await lastOpenShards(redis);
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

/** Remembers whether Postgres is older than Redis: restored from a backup, without the changes that Redis received since. */
export type StalePostgresWatch = ReturnType<typeof watchStalePostgres>;

/** Tells operators, by log and metric, when Postgres is found to be older than Redis and when it no longer is. */
export function watchStalePostgres(metrics: Metrics, log: Logger) {
  let known = false;
  return {
    note(stale: boolean): void {
      metrics.settingsOlder.set(stale ? 1 : 0);
      if (stale && !known)
        log.error('Postgres is older than Redis: changes are refused until `npm run restored` was run');
      if (!stale && known) log.warn('Postgres is no longer older than Redis');
      known = stale;
    },
    /** Throws while it is older: a write would build on outdated settings. */
    refuse(): void {
      if (known) throw new ApiError('postgres_stale');
    },
  };
}

/** Whether shards, open or closed, hold changes that this Postgres has not made: these, or else all that can be asked. */
export async function isPostgresStale(sql: Sql, redis: ShardedRedis, these?: number[]): Promise<boolean> {
  const shards = await (these ? readShards(redis, LOOK_WITHIN_MS, these) : lastKnown(redis));
  if (these && shards.size < these.length) throw new ApiError('redis_unavailable');
  const [made] = await sql<[{ last: number }]>`select ${lastChange(sql)} as last`;
  return newestOf(shards) > made.last;
}

/** The last change that was made, besides some. Its row is never pruned; the sequence is counted ahead, so a standby's is beyond what it got. */
export function lastChange(sql: Query, without: number[] = []) {
  return sql`coalesce((select max(id) from changes where id <> all(${without}::bigint[])), 0)`;
}

/** The last change of Postgres that some of these shards got. */
export function newestOf(shards: Map<number, { change: number }>): number {
  return Math.max(0, ...[...shards.values()].map(({ change }) => change));
}
