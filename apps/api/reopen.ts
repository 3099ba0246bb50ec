import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Books } from '../../shared/clickhouse.ts';
import { openShards } from '../../shared/fence.ts';
import { keyspace } from '../../shared/keyspace.ts';
import type { Logger } from '../../shared/log.ts';
import { orGiveUp, type Sql } from '../../shared/postgres.ts';
import type { RedisNode } from '../../shared/redis-node.ts';
import type { RedisLink } from '../../shared/redis.ts';
import { repeat, type Repeating } from '../../shared/repeat.ts';
import { inBatches } from './batches.ts';
import { loadChanged, loadShards, type Change } from './entries.ts';
import { writeEntries } from './sync.ts';

type Stores = { sql: Sql; link: RedisLink; books: Books; log: Logger };
type Claim = { shard: number; emptied: boolean; checkpoint: number; epoch: number };

const LOOK_EVERY_MS = 250;
const STEP_WITHIN_MS = 2_000;
const CLOSED_AT_LEAST_MS = 1_000;
const RENEW_EVERY_MS = 1_000;

/** Looks for closed shards and opens them again, until stopped; each server's by themselves, as servers come back. */
export function keepShardsOpen(stores: Stores): Repeating {
  const { link, log } = stores;
  const repeating = repeat(LOOK_EVERY_MS, log, 'looking for closed shards', async () => {
    const open = await openShards(link, STEP_WITHIN_MS);
    const ofNodes = [...link.byNode()].map(async ([node, shards]) => {
      const closed = shards.filter((shard) => !open.has(shard));
      if (closed.length > 0) await reopen(stores, node, closed);
    });
    const results = await Promise.allSettled(ofNodes);
    for (const result of results)
      if (result.status === 'rejected') log.warn({ error: result.reason }, 'shards stay closed');
  });
  link.onReady(repeating.soon);
  return repeating;
}

/**
 * Reopens closed shards.
 * 1. Claim them. A builder that dies here holds them for 5 s, then another may claim.
 * 2. Note how far Postgres has come, before reading it: a change that comes later is applied by whoever makes it.
 * 3. Write what they lack, behind the build token: another's claim stops us with the next write.
 * 4. Open, in a new epoch. Dying before this leaves them closed: 503, never a wrong answer.
 */
async function reopen(stores: Stores, node: RedisNode, shards: number[]): Promise<void> {
  const started = performance.now();
  const runId = node.runId();
  const token = randomUUID();
  const claims = await claim(node, runId, token, shards);
  if (claims.length === 0) return;

  // Reading may take long, and a claim that ran out meanwhile is another's.
  const renewing = repeat(RENEW_EVERY_MS, stores.log, 'renewing the claim of shards', () => renew(node, token, claims));
  try {
    const horizon = await build(stores, token, claims);
    const epochs = await orGiveUp(nextEpochs(stores.sql, claims));
    await Promise.all(claims.map(({ shard }) => open(node, shard, [runId, token, epochs.get(shard)!, horizon])));
  } finally {
    await renewing.stop();
  }
  const emptied = claims.filter((one) => one.emptied).length;
  stores.log.info({ shards: claims.length, emptied, tookMs: Math.round(performance.now() - started) }, 'shards opened');
}

/** Writes what claimed shards lack; gives up to where Postgres was read. */
async function build({ sql, link, books }: Stores, token: string, claims: Claim[]): Promise<number> {
  const [row] = await orGiveUp(
    sql<[{ horizon: number }]>`select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as horizon`,
  );
  const fence = () => `build:${token}`;
  const behind = claims.filter((one) => !one.emptied);
  for await (const entries of loadSince(sql, behind)) await writeEntries(link, fence, entries);
  // Asked for only now: what was removed before or while the changes were read shows here.
  const whole = await shardsToWriteWhole(sql, claims);
  for await (const entries of loadShards(sql, whole)) await writeEntries(link, fence, entries);
  const emptied = claims.filter((one) => one.emptied).map((one) => one.shard);
  // The shards stay closed for a second anyway; meanwhile what the consumers had in hand reaches the books.
  if (emptied.length > 0) await sleep(CLOSED_AT_LEAST_MS);
  for await (const entries of usedFromBooks(sql, books, emptied)) await writeEntries(link, fence, entries);
  return row.horizon;
}

/** Holds claims for as long as it takes. Writing nothing behind the build token does it, and revives none that is gone. */
async function renew(node: RedisNode, token: string, claims: Claim[]): Promise<void> {
  await Promise.all(
    claims.map(({ shard }) => {
      const args = [`build:${token}`, node.notAfter(STEP_WITHIN_MS)];
      return node.script('apply', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    }),
  );
}

async function claim(node: RedisNode, runId: string, token: string, shards: number[]): Promise<Claim[]> {
  const answers = await Promise.all(
    shards.map(async (shard) => ({
      shard,
      answer: await node.script('begin', [keyspace.meta(shard)], [runId, token], STEP_WITHIN_MS),
    })),
  );
  return answers
    .filter(({ answer }) => answer[0] === 'CLAIMED')
    .map(({ shard, answer: [, , checkpoint, epoch] }) => ({
      shard,
      emptied: checkpoint === '',
      checkpoint: Number(checkpoint),
      epoch: Number(epoch),
    }));
}

/** Emptied shards, and those whose checkpoint lies before the oldest change that is still kept. */
async function shardsToWriteWhole(sql: Sql, claims: Claim[]): Promise<number[]> {
  const [pruned] = await orGiveUp(sql<{ at: number }[]>`select at from job_watermarks where job = 'changes_pruned'`);
  return claims.filter((one) => one.emptied || one.checkpoint <= (pruned?.at ?? -1)).map((one) => one.shard);
}

async function* loadSince(sql: Sql, claims: Claim[]) {
  if (claims.length === 0) return;
  const since = Math.min(...claims.map((one) => one.checkpoint));
  const shards = claims.map((one) => one.shard);
  const wanted = new Set(shards);
  const rows = inBatches<Change & { id: number }, number>(
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
 * Used credits of emptied shards as the books have them. A used amount counts as its own version, so that writing it
 * only ever raises what is there.
 */
async function* usedFromBooks(sql: Sql, books: Books, shards: number[]) {
  type Row = { id: string; shard: number; workspaceId: string; externalMeterId: string };
  const rows = inBatches<Row, string>(
    '',
    (row) => row.id,
    (after, limit) => sql`
    select id, shard, workspace_id, external_meter_id from billing_records
    where shard = any(${shards}) and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const records of rows) {
    const used = await books.usedCredits(records.map((record) => record.id));
    yield records.map(({ id, shard, workspaceId, externalMeterId }) => ({
      shard,
      key: keyspace.billing(shard, workspaceId, externalMeterId),
      field: 'u',
      value: String(used.get(id) ?? 0),
      lifetimeSeconds: 0,
    }));
  }
}

/** Epochs are counted in Postgres, and above what survived in the shard: a repeated one could hide a lost event. */
async function nextEpochs(sql: Sql, claims: Claim[]): Promise<Map<number, number>> {
  const rows = await sql<{ shard: number; epoch: number }[]>`
    update shards set epoch = greatest(shards.epoch, survived.epoch) + 1
    from (select unnest(${claims.map((one) => one.shard)}::smallint[]) as shard,
                 unnest(${claims.map((one) => one.epoch)}::bigint[]) as epoch) as survived
    where shards.shard = survived.shard
    returning shards.shard, shards.epoch`;
  return new Map(rows.map((row) => [row.shard, row.epoch]));
}

async function open(node: RedisNode, shard: number, args: (string | number)[]): Promise<void> {
  for (;;) {
    const [status, , waitMs] = await node.script('open', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    if (status === 'OPEN') return;
    if (status === 'LOST') throw new Error(`shard ${shard} was claimed by another builder`);
    await sleep(Number(waitMs));
  }
}
