import { ApiError } from '../../../shared/contract/errors.ts';
import { openShards } from '../../../shared/stores/fence.ts';
import { SHARDS } from '../../../shared/values/key-text.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import { isPostgresStale, type StalePostgresWatch } from './stale-postgres.ts';
import type { StoredChange } from './change.ts';
import { adoptHistory, moveCheckpoints } from './checkpoints.ts';
import { applyChanges } from './sync.ts';

const EVERY_MS = 1_000;
const CHECKPOINT_EVERY_MS = 10_000;
const CHANGES_AT_ONCE = 500;
const LOOK_WITHIN_MS = 1_000;
// After this and the shard at hand it sweeps again, so that changes do not wait for all shards.
const ADOPT_FOR_MS = 500;

/** Applies changes whose process died, or lost Redis, between the commit and the apply; also advances the checkpoints. */
export function startSweeper(sql: Sql, redis: ShardedRedis, watch: StalePostgresWatch, log: Logger): Loop {
  let checkpoint = { history: '', horizon: 0 };
  let checkpointed = 0;
  return startLoop(redis.clock, EVERY_MS, log, 'sweeping changes', () =>
    unlessStale(sql, redis, watch, async () => {
      // Fewer are all that were due: what has to wait is due again later, and must not keep this from its other work.
      while ((await sweep(sql, redis)) === CHANGES_AT_ONCE);
      if (redis.clock.monotonic() - checkpointed > CHECKPOINT_EVERY_MS) {
        checkpoint = await moveCheckpoints(sql, redis, checkpoint);
        checkpointed = redis.clock.monotonic();
      }
      const adoptUntil = redis.clock.monotonic() + ADOPT_FOR_MS;
      while ((await adoptHistory(sql, redis)) && redis.clock.monotonic() < adoptUntil);
    }),
  );
}

/** Does this work unless Postgres is older than Redis: then an operator must decide. */
async function unlessStale(
  sql: Sql,
  redis: ShardedRedis,
  watch: StalePostgresWatch,
  work: () => Promise<void>,
): Promise<void> {
  let stale = await isPostgresStale(sql, redis);
  try {
    if (!stale) await work();
  } catch (error) {
    if (!(error instanceof ApiError) || error.errorName !== 'postgres_stale') throw error;
    stale = true;
  }
  watch.note(stale);
}

/**
 * Applies waiting changes that are older than any request; returns how many. Two sweepers may apply the same changes
 * without harm.
 */
export async function sweep(sql: Sql, redis: ShardedRedis): Promise<number> {
  const open = await openShards(redis, LOOK_WITHIN_MS);
  // Changes for a closed shard must not hold up the others.
  const waiting = await sql<StoredChange[]>`
    select id, kind, entity_id, shard from changes
    where applied_at is null and created_at < now() - interval '3 seconds'
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
