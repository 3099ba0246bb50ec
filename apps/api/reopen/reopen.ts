import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { openShards } from '../../../shared/stores/fence.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';
import type { RedisNode } from '../../../shared/stores/redis-node.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import { inBatches } from '../sync/batches.ts';
import { claim, open, renew, STEP_WITHIN_MS, wipe, type Claim } from './shard-claims.ts';
import type { Entry, StoredChange } from '../sync/change.ts';
import { loadChanged, loadShard } from '../sync/entries.ts';
import type { StalePostgresWatch } from '../sync/stale-postgres.ts';
import { recordLostAdjustments, settleBehind, settleEmptied, type OnProgress, type Stores } from './settle.ts';
import { writeEntries, type EntryGrant } from '../sync/sync.ts';

export type Reopening = Stores & { stalePostgres: StalePostgresWatch; log: Logger };

const LOOK_EVERY_MS = 250;
const CLOSED_AT_LEAST_MS = 1_000;
const RENEW_EVERY_MS = 1_000;
const EMPTIED_AT_ONCE = 4;

/** Looks for closed shards and opens them again, until stopped; each server's by themselves, as servers come back. */
export function keepShardsOpen(parts: Reopening): Loop {
  const { redis, log } = parts;
  const repeating = startLoop(LOOK_EVERY_MS, log, 'looking for closed shards', async () => {
    const open = await openShards(redis, STEP_WITHIN_MS);
    const ofNodes = [...redis.byNode()].map(async ([node, shards]) => {
      const closed = shards.filter((shard) => !open.has(shard));
      if (closed.length > 0) await reopen(parts, node, closed);
    });
    const results = await Promise.allSettled(ofNodes);
    for (const result of results)
      if (result.status === 'rejected') log.warn({ error: result.reason }, 'shards stay closed');
  });
  redis.onReady(repeating.soon);
  return repeating;
}

/**
 * Reopens closed shards; with `anew`, also open ones, of which everything is written again.
 * 1. Claim them. A builder that dies here holds them for 5 s, then another may claim.
 * 2. Note how far Postgres has come, before reading it: a change that comes later is applied by whoever makes it.
 * 3. Write what they lack, behind the build token: another's claim stops us with the next write.
 * 4. Open, in a new epoch. Dying before this leaves them closed: 503, never a wrong answer.
 * Shards that were emptied are written and opened one after the other, so that the first serves long before the last.
 */
export async function reopen(
  parts: Reopening,
  node: RedisNode,
  shards: number[],
  anew = false,
  onProgress: OnProgress = () => {},
): Promise<void> {
  const { sql, log, stalePostgres } = parts;
  const started = performance.now();
  const runId = node.runId();
  const token = randomUUID();
  const claims = await claim(node, anew ? 'close' : 'begin', [runId, token], shards);
  if (claims.length === 0) return;
  const [emptied, kept] = [claims.filter((one) => one.emptied), claims.filter((one) => !one.emptied)];
  // What was emptied would be filled with what is known to be old.
  if (emptied.length > 0) stalePostgres.refuse();

  // Reading may take long, and a claim that ran out meanwhile is another's.
  const renewing = startLoop(RENEW_EVERY_MS, log, 'renewing the claim of shards', () => renew(node, token, claims));
  // Shards stay closed for a second anyway; meanwhile what the consumers had in hand reaches the books.
  const booked = sleep(CLOSED_AT_LEAST_MS);
  let finish: () => Promise<void>;
  try {
    const epochs = await orGiveUp(nextEpochs(parts, claims));
    const right = (shard: number) => ({ fence: `build:${token}`, epoch: epochs.get(shard)! });
    const { horizon, change } = await progressOf(sql);
    const grant: EntryGrant = { fence: () => `build:${token}`, change };
    const openUp = async (some: Claim[]) => {
      await recordLostAdjustments(parts, some, right);
      await Promise.all(some.map(({ shard }) => open(node, shard, [runId, token, epochs.get(shard)!, horizon])));
    };

    await writeChanges(parts, grant, kept);
    // Asked for only now: what was removed before or while the changes were read shows here.
    for (const one of await longOutdated(sql, kept)) await writeWhole(parts, grant, one.shard);
    finish = await settleBehind(parts, kept, right, CLOSED_AT_LEAST_MS);
    await openUp(kept);

    await wipe(node, token, emptied);
    const rest = [...emptied];
    const oneByOne = async () => {
      for (let one = rest.shift(); one; one = rest.shift()) {
        await writeWhole(parts, grant, one.shard, onProgress);
        await booked;
        await settleEmptied(parts, [one.shard], right, onProgress);
        await openUp([one]);
      }
    };
    await Promise.all(Array.from({ length: EMPTIED_AT_ONCE }, oneByOne)).finally(() => rest.splice(0));
  } finally {
    await renewing.stop();
  }
  const tookMs = Math.round(performance.now() - started);
  log.info({ shards: claims.length, emptied: emptied.length, tookMs }, 'shards opened');
  finish().catch((error: unknown) =>
    log.error({ error }, 'balances may be behind the books until they are reconciled'),
  );
}

/** How far Postgres has come: every transaction before `horizon` is over. */
async function progressOf(sql: Sql): Promise<{ horizon: number; change: number }> {
  const [row] = await orGiveUp(
    sql<[{ horizon: number; change: number }]>`
      select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as horizon,
             coalesce((select max(id) from changes), 0) as change`,
  );
  return row;
}

async function writeChanges({ sql, redis }: Reopening, grant: EntryGrant, claims: Claim[]): Promise<void> {
  for await (const entries of loadSince(sql, claims)) await writeEntries(sql, redis, grant, entries);
}

async function writeWhole(
  { sql, redis }: Reopening,
  grant: EntryGrant,
  shard: number,
  onProgress: OnProgress = () => {},
) {
  for await (const entries of loadShard(sql, shard)) {
    await writeEntries(sql, redis, grant, entries);
    onProgress(entries.length);
  }
}

/** Shards whose checkpoint lies before the oldest change that is still kept. */
async function longOutdated(sql: Sql, claims: Claim[]): Promise<Claim[]> {
  const [pruned] = await orGiveUp(sql<{ at: number }[]>`select at from job_watermarks where job = 'changes_pruned'`);
  return claims.filter((one) => one.checkpoint <= (pruned?.at ?? -1));
}

async function* loadSince(sql: Sql, claims: Claim[]): AsyncGenerator<Entry[]> {
  if (claims.length === 0) return;
  const since = Math.min(...claims.map((one) => one.checkpoint));
  const shards = claims.map((one) => one.shard);
  const wanted = new Set(shards);
  const rows = inBatches<StoredChange, number>(
    0,
    (change) => change.id,
    (after, limit) => sql`
    select id, kind, entity_id, shard from changes
    where tx >= ${String(since)}::text::xid8 and (shard is null or shard = any(${shards})) and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const changes of rows) {
    for await (const entries of loadChanged(sql, changes)) yield entries.filter((entry) => wanted.has(entry.shard));
  }
}

/**
 * Epochs are counted in Postgres, and above what survived in the shard and, of an emptied one, in the books: a repeated
 * one could hide a lost event.
 */
async function nextEpochs({ sql, books }: Stores, claims: Claim[]): Promise<Map<number, number>> {
  const inBooks = claims.some((one) => one.emptied) ? await lastEpoch(books) : 0;
  const rows = await sql<{ shard: number; epoch: number }[]>`
    update shards set epoch = greatest(shards.epoch, survived.epoch) + 1
    from (select unnest(${claims.map((one) => one.shard)}::smallint[]) as shard,
                 unnest(${claims.map((one) => (one.emptied ? Math.max(one.epoch, inBooks) : one.epoch))}::bigint[]) as epoch) as survived
    where shards.shard = survived.shard
    returning shards.shard, shards.epoch`;
  return new Map(rows.map((row) => [row.shard, row.epoch]));
}

async function lastEpoch(books: Stores['books']): Promise<number> {
  const answer = await books.client.query({
    query: 'select max(epoch) from usage_events',
    format: 'JSONCompactEachRow',
  });
  const [row] = await answer.json<[epoch: number]>();
  return row![0];
}
