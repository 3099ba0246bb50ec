import { randomUUID } from 'node:crypto';
import type { WriteGrant } from '../../../shared/books/rebuilding/rebuild.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import { openShards } from '../../../shared/stores/fence.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { runPipeline } from '../../../shared/stores/pipeline.ts';
import { orGiveUp } from '../../../shared/stores/postgres.ts';
import type { RedisNode } from '../../../shared/stores/redis-node.ts';
import { postgresPosition, type Position, isPostgresStale, type StalePostgresWatch } from '../sync/sweeper.ts';
import type { EntryGrant } from '../sync/sync.ts';
import { beginLogs, nextEpochs } from './epochs.ts';
import { fillBalances, type OnProgress, type Stores } from './fill-balances.ts';
import { fillLimits } from './fill-limits.ts';
import { recordLostAdjustments } from './lost-adjustments.ts';
import { ALL_BUT_BALANCES, claim, EVERYTHING, open, renew, STEP_WITHIN_MS, wipe, type Claim } from './shard-claims.ts';
import { writeMissing, writeWhole } from './write-missing.ts';

/** `random` gives numbers from 0 up to 1. */
export type ReopenOptions = Stores & {
  stalePostgres: StalePostgresWatch;
  random: () => number;
  /** Called where shards were opened. */
  onOpened?: () => void;
};

const LOOK_EVERY_MS = 250;
const CLOSED_AT_LEAST_MS = 1_000;
const RENEW_EVERY_MS = 1_000;
const EMPTIED_AT_ONCE = 4;
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
 * Reopens closed shards of one server in three phases: it claims them, then openKept, openEmptied. A server whose log ends before
 * what the books have counts as emptied. With `rebuild`, it first closes open shards too, and writes everything in them again.
 */
export async function reopen(
  options: ReopenOptions,
  node: RedisNode,
  shards: number[],
  { rebuild = false, onProgress = () => {} }: { rebuild?: boolean; onProgress?: OnProgress } = {},
): Promise<void> {
  const { log } = options;
  const { clock } = node;
  const started = clock.monotonic();
  // Phase 1. After a crash from here on the claim lasts for 5 s; then another builder may claim the shards.
  const runId = node.runId();
  const token = randomUUID();
  const claims = await claim(node, rebuild ? 'close' : 'begin', [runId, token], shards);
  if (claims.length === 0) return;
  // An emptied shard would be filled from a Postgres that is known to be behind.
  if (claims.some((one) => one.emptied)) options.stalePostgres.refuse();

  // Reading may take longer than a claim lasts; once it has run out, another builder may take the shard.
  const renewing = startLoop(clock, RENEW_EVERY_MS, log, 'renewing the claim of shards', () =>
    renew(node, token, claims),
  );
  // Shards stay closed for a second anyway; meanwhile the consumers write the events in their hands to the books.
  const booked = clock.sleep(CLOSED_AT_LEAST_MS);
  try {
    const build = await beginBuild(options, node, { runId, token, claims });
    await openKept(build);
    await openEmptied(build, booked, onProgress);
    const tookMs = Math.round(clock.monotonic() - started);
    log.info({ shards: claims.length, emptied: build.emptied.length, tookMs }, 'shards opened');
  } finally {
    await renewing.stop();
  }
}

/** Shards that are ours to reopen. */
type Claimed = { runId: string; token: string; claims: Claim[] };

/** What the phases that write need: the rights to write entries and balances, and how to open what is written. */
type Build = {
  stores: ReopenOptions;
  node: RedisNode;
  token: string;
  /** Those that kept their data, and those that came back empty or behind the books. */
  kept: Claim[];
  emptied: Claim[];
  position: Position;
  entryGrant: EntryGrant;
  writeGrant: WriteGrant;
  openUp(claims: Claim[]): Promise<void>;
};

/**
 * Reads the position of Postgres first. Later changes need no care: their own request applies them. Every write checks the
 * build token, so that another builder's claim stops us at the next one.
 */
async function beginBuild(stores: ReopenOptions, node: RedisNode, { runId, token, claims }: Claimed): Promise<Build> {
  const { epochs, isBehind } = await orGiveUp(nextEpochs(stores, claims));
  if (isBehind) {
    // An entry of one shard may have events of others of its server.
    const shards = claims.map(({ shard }) => shard);
    stores.log.error({ shards }, 'redis came back behind the books; its shards are rebuilt from them');
    stores.stalePostgres.refuse();
    // From here on they are emptied for whoever opens them.
    await claim(node, 'close', [runId, token], shards);
  }
  const emptied = claims.filter((one) => isBehind || one.emptied);
  await orGiveUp(
    beginLogs(
      stores,
      emptied.map(({ shard }) => shard),
    ),
  );
  const fence = `build:${token}`;
  const writeGrant = (shard: number) => ({ fence, epoch: epochs.get(shard)! });
  const position = await postgresPosition(stores.sql);
  const { history, horizon, change } = position;
  return {
    stores,
    node,
    token,
    kept: claims.filter((one) => !emptied.includes(one)),
    emptied,
    position,
    entryGrant: { fence: () => fence, change },
    writeGrant,
    async openUp(claims) {
      await recordLostAdjustments(stores, claims, writeGrant);
      await Promise.all(
        claims.map(({ shard }) => open(node, shard, [runId, token, epochs.get(shard)!, horizon, history])),
      );
      stores.onOpened?.();
    },
  };
}

/**
 * Phase 2. Writes what the shards missed since their checkpoints, and opens them in a new epoch. A crash before the opening leaves the
 * shards closed: verify answers 503, never wrongly.
 */
async function openKept({ stores, node, token, kept, position, entryGrant, openUp }: Build): Promise<void> {
  const outdated = await writeMissing(stores, entryGrant, position, kept);
  const shards = outdated.map(({ shard }) => shard);
  // What a shard knows better than Postgres must not be wiped.
  if (shards.length > 0 && (await isPostgresStale(stores.sql, stores.redis, shards)))
    throw new ApiError('postgres_stale');
  // Before the wipe, because this refuses where a record in Redis is newer than in Postgres.
  for (const { shard } of outdated) await writeWhole(stores, entryGrant, shard);
  // No change says what such a shard must forget.
  await wipe(node, token, outdated, ALL_BUT_BALANCES);
  for (const { shard } of outdated) await writeWhole(stores, entryGrant, shard);
  await openUp(kept);
}

/**
 * Phase 3. Wipes emptied shards once what is left of their logs is on its way to the books, writes everything in them, sets their
 * balances from the books, and opens them. Each shard opens as soon as it is whole, so that the first serves long before the last. A
 * crash leaves the others closed and empty; the next builder starts them from the beginning.
 */
async function openEmptied(build: Build, booked: Promise<void>, onProgress: OnProgress): Promise<void> {
  const { stores, node, token, emptied, entryGrant, writeGrant, openUp } = build;
  if (emptied.length === 0) return;
  await drain(node, emptied);
  await wipe(node, token, emptied, EVERYTHING);
  // From anywhere on: those that fail must not come before the others each time.
  const first = Math.floor(stores.random() * emptied.length);
  const rest = [...emptied.slice(first), ...emptied.slice(0, first)];
  const oneByOne = async () => {
    for (let next = rest.shift(); next; next = rest.shift()) {
      await writeWhole(stores, entryGrant, next.shard, onProgress);
      await booked;
      // Before the holds, which come back with the balances and are added.
      await fillLimits(stores, next.shard, writeGrant);
      await fillBalances(stores, next.shard, writeGrant, onProgress);
      await openUp([next]);
    }
  };
  // A shard that fails ends one of these alone: where all would fail, four are tried. The claims are renewed until all have ended:
  // another round would wipe what is still being filled.
  const outcomes = await Promise.allSettled(Array.from({ length: EMPTIED_AT_ONCE }, oneByOne));
  const failed = outcomes.find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
}

/** Waits until nothing is left in the outboxes of shards. What comes to the books later is found there to be late, record by record. */
async function drain(node: RedisNode, claims: Claim[]): Promise<void> {
  const until = node.clock.monotonic() + DRAINED_WITHIN_MS;
  while (node.clock.monotonic() < until) {
    const pipeline = node.client.pipeline();
    for (const { shard } of claims) pipeline.xlen(keyspace.outbox(shard));
    const left = (await runPipeline(node.clock, pipeline, STEP_WITHIN_MS)) as number[];
    if (left.every((entries) => entries === 0)) return;
    await node.clock.sleep(LOOK_AT_LOGS_EVERY_MS);
  }
}
