import { randomUUID } from 'node:crypto';
import { billingRefsAfter, type BillingRef } from '../../../shared/books/billing-refs.ts';
import {
  rebuild as rebuildBalances,
  requireBooks,
  type RebuildStores,
  type SetAside,
} from '../../../shared/books/rebuilding/rebuild.ts';
import { sum } from '../../../shared/books/sums/booked.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import { mapLimited } from '../../../shared/runtime/map-limited.ts';
import { openShards } from '../../../shared/stores/fence.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { runPipeline } from '../../../shared/stores/pipeline.ts';
import type { RedisNode } from '../../../shared/stores/redis-node.ts';
import { batchesById } from '../sync/batches.ts';
import { postgresPosition, isPostgresStale, type StalePostgresWatch } from '../sync/sweeper.ts';
import { fillLimits } from './fill-limits.ts';
import { claim, nextEpochs, open, renew, STEP_WITHIN_MS, wipe, type Claim } from './shard-claims.ts';
import { writeMissing, writeWhole } from './write-missing.ts';

export type ReopenOptions = RebuildStores & {
  stalePostgres: StalePostgresWatch;
  /** Called with shards that were opened. */
  onOpened?: (shards: number[]) => void;
};

const LOOK_EVERY_MS = 500;
const CLOSED_AT_LEAST_MS = 1_000;
const RENEW_EVERY_MS = 1_000;
const FILLED_AT_ONCE = 4;
const DRAINED_WITHIN_MS = 5_000;
const LOOK_AT_LOGS_EVERY_MS = 100;

/** Looks for closed shards and opens them again, until stopped. Servers are independent: each one's shards open as it comes back. */
export function keepShardsOpen(options: ReopenOptions): Loop {
  const { redis, log } = options;
  const underWay = new Map<RedisNode, Promise<void>>();
  const loop = startLoop(redis.clock, LOOK_EVERY_MS, log, 'looking for closed shards', async () => {
    const open = await openShards(redis, STEP_WITHIN_MS);
    for (const [node, shards] of redis.byNode()) {
      const closed = shards.filter((shard) => !open.has(shard));
      if (closed.length === 0 || underWay.has(node)) continue;
      const reopening = reopen(options, node, closed)
        .catch((error: unknown) => log.warn({ error }, 'shards stay closed'))
        .finally(() => underWay.delete(node));
      underWay.set(node, reopening);
    }
  });
  redis.onReady(loop.soon);
  return {
    soon: loop.soon,
    async stop() {
      await loop.stop();
      await Promise.all(underWay.values());
    },
  };
}

/**
 * Reopens closed shards of one server. Those that are as the books and Postgres know them open as they are; all others are emptied and
 * filled, as if they had come back empty. With `rebuild`, it first closes open shards too, and writes everything in them again.
 * 1. Claim them. After a crash from here on the claim lasts for 5 s; then another builder may claim the shards. Every write checks the
 *    token, so that another builder's claim stops us at the next one.
 * 2. Write what those missed that kept their data, and open them in a new epoch. After a crash before the opening they stay closed:
 *    verify answers 503, never wrongly.
 * 3. Close the others for whoever opens them, wipe them once what is left of their logs is on its way to the books, and fill and open them
 *    one by one. After a crash those that are left are closed and empty; the next builder starts them from the beginning.
 */
export async function reopen(
  options: ReopenOptions,
  node: RedisNode,
  shards: number[],
  { rebuild = false } = {},
): Promise<void> {
  const { clock } = node;
  const started = clock.monotonic();
  const [runId, token] = [node.runId(), randomUUID()];
  const claims = await claim(node, rebuild ? 'close' : 'begin', [runId, token], shards);
  if (claims.length === 0) return;
  // Reading may take longer than a claim lasts; once it has run out, another builder may take the shard.
  const renewing = startLoop(clock, RENEW_EVERY_MS, options.log, 'renewing the claim of shards', () =>
    renew(node, token, claims),
  );
  try {
    const filled = await openClaimed(options, node, { runId, token, claims });
    const tookMs = Math.round(clock.monotonic() - started);
    options.log.info({ shards: claims.length, emptied: filled.length, tookMs }, 'shards opened');
  } finally {
    await renewing.stop();
  }
}

/** Shards that are ours to reopen. */
type Claimed = { runId: string; token: string; claims: Claim[] };

/** Gives the shards that it filled. */
async function openClaimed(
  stores: ReopenOptions,
  node: RedisNode,
  { runId, token, claims }: Claimed,
): Promise<Claim[]> {
  const { sql, redis, log, stalePostgres } = stores;
  const known = await nextEpochs(sql, claims, node.clock.now());
  const { epochs, isBehind } = known;
  // Before anything is read of Postgres. Later changes need no care: their own request applies them.
  const position = await postgresPosition(sql);
  const { history, horizon, change } = position;
  const fence = `build:${token}`;
  const entryGrant = { fence: () => fence, change };
  const writeGrant = (shard: number) => ({ fence, epoch: epochs.get(shard)! });
  const openUp = async (some: Claim[]) => {
    // A shard may have lost the last adjustments. They are applied again, in which one that it has changes nothing.
    await sql`
      update changes set applied_at = null, created_at = now() - interval '1 minute'
      where kind = 'adjustment' and applied_at is not null and shard = any(${shardsOf(some)})`;
    await Promise.all(some.map(({ shard }) => open(node, shard, [runId, token, epochs.get(shard)!, horizon, history])));
    stores.onOpened?.(shardsOf(some));
  };

  // An entry of one shard may have events of others of its server.
  const lost = claims.filter(({ emptied }) => isBehind || emptied);
  const kept = claims.filter((one) => !lost.includes(one));
  const current = await writeMissing(stores, entryGrant, position, kept);
  if (current.length > 0) await openUp(current);
  const outdated = kept.filter((one) => !current.includes(one));
  const toFill = [...lost, ...outdated];
  if (toFill.length === 0) return [];

  if (isBehind)
    log.error({ shards: shardsOf(claims) }, 'redis came back behind the books; its shards are rebuilt from them');
  // They would be filled from a Postgres that is known to be behind.
  stalePostgres.refuse();
  // What a shard knows better than Postgres must not be wiped; writing refuses where a record in Redis is newer.
  if (outdated.length > 0 && (await isPostgresStale(sql, redis, shardsOf(outdated))))
    throw new ApiError('postgres_stale');
  for (const { shard } of outdated) await writeWhole(stores, entryGrant, shard);
  await requireBooks(stores);
  await claim(node, 'close', [runId, token], shardsOf(toFill.filter(({ emptied }) => !emptied)));
  await drain(node, toFill);
  await wipe(node, token, toFill, known);
  const failures: unknown[] = [];
  await mapLimited(toFill, FILLED_AT_ONCE, async (one) => {
    try {
      await writeWhole(stores, entryGrant, one.shard);
      // Before the holds, which come back with the balances and are added.
      await fillLimits(stores, one.shard, writeGrant);
      const records = batchesById<BillingRef>((after, most) =>
        billingRefsAfter(sql, { shards: [one.shard] }, after, most),
      );
      for await (const some of records) await rebuildBalances(stores, some.map(neverSetAside), writeGrant);
      await openUp([one]);
    } catch (error) {
      // A shard that fails alone holds up no other.
      if (error instanceof ApiError) throw error;
      failures.push(error);
    }
  });
  if (failures.length > 0) throw failures[0];
  return toFill;
}

/**
 * Waits until nothing is left in the outboxes of shards, nor in the hands of consumers: they stay closed for a second anyway. What comes
 * to the books later is found there to be late, record by record.
 */
async function drain(node: RedisNode, claims: Claim[]): Promise<void> {
  const until = node.clock.monotonic() + DRAINED_WITHIN_MS;
  let waitMs = CLOSED_AT_LEAST_MS;
  for (let left = 1; left > 0 && node.clock.monotonic() < until; waitMs = LOOK_AT_LOGS_EVERY_MS) {
    await node.clock.sleep(waitMs);
    const pipeline = node.client.pipeline();
    for (const { shard } of claims) pipeline.xlen(keyspace.outbox(shard));
    left = sum((await runPipeline(node.clock, pipeline, STEP_WITHIN_MS)) as number[]);
  }
}

/** A record of a shard that is filled has given nothing yet. */
function neverSetAside(billing: BillingRef): SetAside {
  return { billing, mark: '', sequence: 0, adjustment: 0, sinceMs: 0 };
}

function shardsOf(claims: Claim[]): number[] {
  return claims.map(({ shard }) => shard);
}
