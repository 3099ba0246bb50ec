import type { Logger } from '../../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../../shared/runtime/loop.ts';
import { openShards } from '../../../../shared/stores/fence.ts';
import { setTeam, type Sql, type Transaction } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { SHARDS } from '../../../../shared/values/key-text.ts';
import { isPostgresStale } from '../../sync/stale-postgres.ts';
import { applyChanges } from '../../sync/sync.ts';
import { lockTeamTokens } from '../access/access.ts';
import { storeRecorded, type Recorded } from '../record.ts';
import { nextOfTeam, type Revocation } from './team-revocation.ts';

const EVERY_MS = 1_000;
const LOOK_WITHIN_MS = 1_000;
// Each page waits for the writes of its team and holds them up: a small one does so for some tens of milliseconds.
const ROWS_AT_ONCE = 200;
// Whoever began the revocation of a team works on it; this long after its last page it has died.
const LEFT_AFTER = '5 seconds';

/** Goes on with revocations of whole teams that nobody works on, a page of each in turn. */
export function startRevoking(sql: Sql, redis: ShardedRedis, log: Logger): Loop {
  // One page a run, without a pause while there are more: so it stops after any page.
  const loop = startLoop(redis.clock, EVERY_MS, log, 'revoking', async () => {
    if (await goOnRevoking(sql, redis)) loop.soon();
  });
  return loop;
}

/** Revokes a page of the revocation whose last page is longest ago; gives whether there was one. */
export async function goOnRevoking(sql: Sql, redis: ShardedRedis): Promise<boolean> {
  // Noted before it is tried: one that fails holds up no other.
  const [next] = await sql<{ id: number }[]>`
    update revocations set worked_at = clock_timestamp()
    where id = (select id from revocations where worked_at < now() - ${LEFT_AFTER}::interval order by worked_at limit 1)
    returning id`;
  if (!next) return false;
  // In a Postgres that was restored from a backup, new changes would hide that it is older than Redis.
  const open = await openShards(redis, LOOK_WITHIN_MS);
  if (open.size < SHARDS || (await isPostgresStale(sql, redis))) return false;
  await revokeNextPage(sql, redis, next.id);
  return true;
}

/**
 * Revokes the next page of a revocation.
 * 1. One transaction holds the page, its changes, its audit lines and how far the work came. A crash before the commit leaves
 *    the page to be done.
 * 2. The changes are applied to Redis. After a crash before this step, the sweeper applies them.
 * Gives undefined once the revocation is done.
 */
export async function revokeNextPage(
  sql: Sql,
  redis: ShardedRedis,
  revocationId: number,
): Promise<Recorded[] | undefined> {
  const done = await sql.begin(async (tx) => {
    const revocation = await lockRevocation(tx, revocationId);
    if (!revocation) return undefined;
    const page = await nextOfTeam(tx, revocation, ROWS_AT_ONCE);
    await tx`update revocations set worked_at = clock_timestamp() where id = ${revocationId}`;
    return { page, stored: await storeRecorded(tx, revocation, page) };
  });
  if (!done) return undefined;
  if (done.stored.length > 0) {
    await applyChanges(sql, redis, done.stored);
    await sql`update changes set applied_at = now() where id = any(${done.stored.map(({ id }) => id)})`;
  }
  return done.page;
}

async function lockRevocation(tx: Transaction, id: number): Promise<Revocation | undefined> {
  const [found] = await tx<{ teamId: string }[]>`select team_id from revocations where id = ${id}`;
  if (!found) return undefined;
  // Lines of the audit log with a token are written for the team of the transaction alone.
  await setTeam(tx, found.teamId);
  await lockTeamTokens(tx, found.teamId, { alone: true });
  const [row] = await tx<Revocation[]>`
    select id, team_id, null as token_id, operation, null as request_id, step, done_to from revocations where id = ${id} for update`;
  return row;
}
