import { ApiError } from '../../../shared/contract/errors.ts';
import { openShards } from '../../../shared/stores/fence.ts';
import { SHARDS } from '../../../shared/values/key-text.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import { isPostgresStale, type StalePostgresWatch } from './stale-postgres.ts';
import type { StoredChange } from './change.ts';
import { applyChanges } from './sync.ts';

const EVERY_MS = 1_000;
const CHECKPOINT_EVERY_MS = 10_000;
const CHECKPOINT_WITHIN_MS = 1_000;
const LOOK_WITHIN_MS = 1_000;

/** Applies changes whose process died, or lost Redis, between the commit and the apply; also advances the checkpoints. */
export function startSweeper(sql: Sql, redis: ShardedRedis, watch: StalePostgresWatch, log: Logger): Loop {
  let checkpoint = 0;
  let checkpointed = 0;
  return startLoop(EVERY_MS, log, 'sweeping changes', async () => {
    if (await sweepUnlessStale(sql, redis, watch)) return;
    if (performance.now() - checkpointed < CHECKPOINT_EVERY_MS) return;
    checkpoint = await moveCheckpoints(sql, redis, checkpoint);
    checkpointed = performance.now();
  });
}

/** Applies waiting changes, unless Postgres is older than Redis: then an operator must decide. Returns whether it is. */
async function sweepUnlessStale(sql: Sql, redis: ShardedRedis, watch: StalePostgresWatch): Promise<boolean> {
  let stale = await isPostgresStale(sql, (await openShards(redis, LOOK_WITHIN_MS)).values());
  try {
    while (!stale && (await sweep(sql, redis)) > 0);
  } catch (error) {
    if (!(error instanceof ApiError) || error.errorName !== 'postgres_stale') throw error;
    stale = true;
  }
  watch.note(stale);
  return stale;
}

/**
 * Applies waiting changes that are older than any request; returns how many. Two sweepers may apply the same changes
 * without harm.
 */
async function sweep(sql: Sql, redis: ShardedRedis): Promise<number> {
  const open = await openShards(redis, LOOK_WITHIN_MS);
  // Changes for a closed shard must not hold up the others.
  const waiting = await sql<StoredChange[]>`
    select id, kind, entity_id, shard from changes
    where applied_at is null and created_at < now() - interval '3 seconds'
      and (shard = any(${[...open.keys()]}) or (shard is null and ${open.size === SHARDS}))
    order by id limit 500`;
  if (waiting.length === 0) return 0;
  const held = new Set((await applyChanges(sql, redis, waiting)).map((change) => change.id));
  const applied = waiting.map((change) => change.id).filter((id) => !held.has(id));
  await sql`update changes set applied_at = now() where id = any(${applied})`;
  // Those that have to wait come again in some seconds; meanwhile they don't hold up the others.
  if (held.size > 0) await sql`update changes set created_at = now() where id = any(${[...held]})`;
  return waiting.length;
}

/**
 * Advances the checkpoints to the oldest running transaction (xmin): every transaction below it is over and its rows are
 * visible, so when none of those rows waits, all shards hold every change up to there. Row ids would not do: they become
 * visible in another order than they are assigned.
 */
async function moveCheckpoints(sql: Sql, redis: ShardedRedis, last: number): Promise<number> {
  const open = await openShards(redis, LOOK_WITHIN_MS);
  const runIds = new Map([...open.keys()].map((shard) => [shard, redis.node(shard).runId()]));
  const [row] = await sql<{ horizon: number; waiting: boolean; moved: boolean }[]>`
    with snapshot as (select pg_snapshot_xmin(pg_current_snapshot()) as horizon)
    select horizon::text::bigint as horizon,
           exists (select from changes where applied_at is null and tx < horizon) as waiting,
           exists (select from changes where tx >= ${String(last)}::text::xid8 and tx < horizon) as moved
    from snapshot`;
  if (!row || row.waiting || !row.moved) return last;
  await Promise.all(
    [...runIds].map(([shard, runId]) =>
      redis.node(shard).script('checkpoint', [keyspace.meta(shard)], [runId, row.horizon], CHECKPOINT_WITHIN_MS),
    ),
  );
  return row.horizon;
}
