import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { booksReach } from '../../shared/drained.ts';
import { openShards } from '../../shared/fence.ts';
import { keyspace } from '../../shared/keyspace.ts';
import type { Logger } from '../../shared/log.ts';
import { orGiveUp, type Sql } from '../../shared/postgres.ts';
import type { RedisNode } from '../../shared/redis-node.ts';
import { repeat, type Repeating } from '../../shared/repeat.ts';
import { inBatches } from './batches.ts';
import { loadChanged, loadShards, type Entry } from './entries.ts';
import type { OlderWatch } from './older.ts';
import { recordLostAdjustments, settleBehind, settleEmptied, type Stores } from './settle.ts';
import { writeEntries, type Recorded, type Writer } from './sync.ts';

export type Reopening = Stores & { older: OlderWatch; log: Logger };
/** A closed shard that is ours to reopen, and what it knows of itself. */
export type Claim = { shard: number; emptied: boolean; checkpoint: number; epoch: number; sinceMs: number };
/** Told how many records were written more. */
export type Written = (records: number) => void;

const LOOK_EVERY_MS = 250;
const STEP_WITHIN_MS = 2_000;
const CLOSED_AT_LEAST_MS = 1_000;
const RENEW_EVERY_MS = 1_000;
const NAMES_AT_ONCE = 500;
const BOOKED_WITHIN_MS = 10_000;

/** Looks for closed shards and opens them again, until stopped; each server's by themselves, as servers come back. */
export function keepShardsOpen(parts: Reopening): Repeating {
  const { link, log } = parts;
  const repeating = repeat(LOOK_EVERY_MS, log, 'looking for closed shards', async () => {
    const open = await openShards(link, STEP_WITHIN_MS);
    const ofNodes = [...link.byNode()].map(async ([node, shards]) => {
      const closed = shards.filter((shard) => !open.has(shard));
      if (closed.length > 0) await reopen(parts, node, closed);
    });
    const results = await Promise.allSettled(ofNodes);
    for (const result of results)
      if (result.status === 'rejected') log.warn({ error: result.reason }, 'shards stay closed');
  });
  link.onReady(repeating.soon);
  return repeating;
}

/**
 * Reopens closed shards; with `anew`, also open ones, of which everything is written again.
 * 1. Claim them. A builder that dies here holds them for 5 s, then another may claim.
 * 2. Note how far Postgres has come, before reading it: a change that comes later is applied by whoever makes it.
 * 3. Write what they lack, behind the build token: another's claim stops us with the next write.
 * 4. Open, in a new epoch. Dying before this leaves them closed: 503, never a wrong answer.
 */
export async function reopen(
  parts: Reopening,
  node: RedisNode,
  shards: number[],
  anew = false,
  written: Written = () => {},
): Promise<void> {
  const { log, older } = parts;
  const started = performance.now();
  const runId = node.runId();
  const token = randomUUID();
  const claims = await claim(node, anew ? 'close' : 'begin', [runId, token], shards);
  if (claims.length === 0) return;
  // What was emptied would be filled with what is known to be old.
  if (claims.some((one) => one.emptied)) older.refuse();

  // Reading may take long, and a claim that ran out meanwhile is another's.
  const renewing = repeat(RENEW_EVERY_MS, log, 'renewing the claim of shards', () => renew(node, token, claims));
  let finish: () => Promise<void>;
  try {
    const epochs = await orGiveUp(nextEpochs(parts, claims));
    const right = (shard: number) => ({ fence: `build:${token}`, epoch: epochs.get(shard)! });
    const horizon = await write(parts, node, token, claims, written);
    const emptied = claims.filter((one) => one.emptied).map((one) => one.shard);
    // The shards stay closed for a second anyway; meanwhile what the consumers had in hand reaches the books. What is
    // written anew although it was there can wait for all of it.
    if (anew) await untilBooked(parts.sql, Math.max(...claims.map((one) => one.sinceMs)));
    else if (emptied.length > 0) await sleep(CLOSED_AT_LEAST_MS);
    await settleEmptied(parts, emptied, right, written);
    finish = await settleBehind(parts, claims, right, CLOSED_AT_LEAST_MS);
    await recordLostAdjustments(parts, claims, right);
    await Promise.all(claims.map(({ shard }) => open(node, shard, [runId, token, epochs.get(shard)!, horizon])));
  } finally {
    await renewing.stop();
  }
  const emptied = claims.filter((one) => one.emptied).length;
  log.info({ shards: claims.length, emptied, tookMs: Math.round(performance.now() - started) }, 'shards opened');
  finish().catch((error: unknown) =>
    log.error({ error }, 'balances may be behind the books until they are reconciled'),
  );
}

/** Writes the settings that claimed shards lack; gives up to where Postgres was read. */
async function write({ sql, link }: Reopening, node: RedisNode, token: string, claims: Claim[], written: Written) {
  const [row] = await orGiveUp(
    sql<[{ horizon: number; change: number }]>`
      select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as horizon,
             coalesce((select max(id) from changes), 0) as change`,
  );
  const writer: Writer = { fence: () => `build:${token}`, change: row.change };
  const behind = claims.filter((one) => !one.emptied);
  for await (const entries of loadSince(sql, behind)) await writeEntries(sql, link, writer, entries);
  // Asked for only now: what was removed before or while the changes were read shows here.
  const whole = await shardsToWriteWhole(sql, claims);
  await wipe(
    node,
    token,
    claims.filter((one) => one.emptied).map((one) => one.shard),
  );
  for await (const entries of loadShards(sql, whole)) {
    await writeEntries(sql, link, writer, entries);
    written(entries.length);
  }
  return row.horizon;
}

/** Removes what is left of settings and balances; what Postgres does not know would never be changed again. */
async function wipe(node: RedisNode, token: string, shards: number[]): Promise<void> {
  if (shards.length === 0) return;
  const ours = new Set(shards);
  let cursor = '0';
  do {
    const [next, names] = await node.client.scan(cursor, 'MATCH', '{??}:[ktwb]:*', 'COUNT', NAMES_AT_ONCE);
    cursor = next;
    const byShard = Map.groupBy(names, (name) => Number(name.slice(1, 3)));
    await Promise.all(
      [...byShard].map(async ([shard, some]) => {
        if (!ours.has(shard)) return;
        const [status] = await node.script('wipe', [keyspace.meta(shard), ...some], [token], STEP_WITHIN_MS);
        if (status !== 'OK') throw new Error(`shard ${shard} was claimed by another builder`);
      }),
    );
  } while (cursor !== '0');
}

/** Holds claims for as long as it takes. Writing nothing behind the build token does it, and revives none that is gone. */
async function renew(node: RedisNode, token: string, claims: Claim[]): Promise<void> {
  await Promise.all(
    claims.map(({ shard }) => {
      const args = [`build:${token}`, node.notAfter(STEP_WITHIN_MS), 0];
      return node.script('apply', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    }),
  );
}

async function claim(node: RedisNode, how: 'begin' | 'close', args: string[], shards: number[]): Promise<Claim[]> {
  const answers = await Promise.all(
    shards.map(async (shard) => ({
      shard,
      answer: await node.script(how, [keyspace.meta(shard), keyspace.outbox(shard)], args, STEP_WITHIN_MS),
    })),
  );
  return answers
    .filter(({ answer }) => answer[0] === 'CLAIMED')
    .map(({ shard, answer: [, , checkpoint, epoch, sinceMs] }) => ({
      shard,
      emptied: checkpoint === '',
      checkpoint: Number(checkpoint),
      epoch: Number(epoch),
      sinceMs: Number(sinceMs),
    }));
}

/** Emptied shards, and those whose checkpoint lies before the oldest change that is still kept. */
async function shardsToWriteWhole(sql: Sql, claims: Claim[]): Promise<number[]> {
  const [pruned] = await orGiveUp(sql<{ at: number }[]>`select at from job_watermarks where job = 'changes_pruned'`);
  return claims.filter((one) => one.emptied || one.checkpoint <= (pruned?.at ?? -1)).map((one) => one.shard);
}

async function* loadSince(sql: Sql, claims: Claim[]): AsyncGenerator<Entry[]> {
  if (claims.length === 0) return;
  const since = Math.min(...claims.map((one) => one.checkpoint));
  const shards = claims.map((one) => one.shard);
  const wanted = new Set(shards);
  const rows = inBatches<Recorded, number>(
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

/** Waits until the books have all that happened up to a moment; not for longer than a standstill of theirs may take. */
async function untilBooked(sql: Sql, atMs: number): Promise<void> {
  const until = performance.now() + BOOKED_WITHIN_MS;
  while ((await booksReach(sql)) <= atMs && performance.now() < until) await sleep(LOOK_EVERY_MS);
}

async function open(node: RedisNode, shard: number, args: (string | number)[]): Promise<void> {
  for (;;) {
    const [status, , waitMs] = await node.script('open', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    if (status === 'OPEN') return;
    if (status === 'LOST') throw new Error(`shard ${shard} was claimed by another builder`);
    await sleep(Number(waitMs));
  }
}
