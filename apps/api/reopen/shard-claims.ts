import type { Sql } from '../../../shared/stores/postgres.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { RedisNode } from '../../../shared/stores/redis-node.ts';

/** A closed shard that is ours to reopen, with what its own record says. `history` is that of the checkpoint. */
export type Claim = {
  shard: number;
  emptied: boolean;
  checkpoint: number;
  history: string;
  epoch: number;
  /** Of its log, as Redis names it. */
  lastEntry: string;
};

export const STEP_WITHIN_MS = 2_000;
const NAMES_AT_ONCE = 2_000;
/** The kinds of records of a shard, by the letters of their names. */
const KINDS = 'ktwabloez';

/** Claims shards for reopening: with `begin` the closed ones, with `close` all of them, which closes them. */
export async function claim(
  node: RedisNode,
  how: 'begin' | 'close',
  args: string[],
  shards: number[],
): Promise<Claim[]> {
  const answers = await Promise.all(
    shards.map(async (shard) => ({
      shard,
      answer: await node.script(how, [keyspace.meta(shard), keyspace.outbox(shard)], args, STEP_WITHIN_MS),
    })),
  );
  return answers
    .filter(({ answer }) => answer[0] === 'CLAIMED')
    .map(({ shard, answer: [, , checkpoint, epoch, lastEntry, history] }) => ({
      shard,
      emptied: checkpoint === '',
      checkpoint: Number(checkpoint),
      history: history ?? '',
      epoch: Number(epoch),
      lastEntry: lastEntry || '0-0',
    }));
}

/** What Postgres says of claimed shards: the epoch of each, and up to which entry of its log the books have it, as Redis names it. */
export type Known = { epochs: Map<number, number>; bookedTo: Map<number, string>; isBehind: boolean };

/**
 * Gives each claimed shard of a server its next epoch, and tells whether one of their logs ends before what the books have of it.
 * Postgres counts epochs; the next one also lies above the epoch that survived in the shard. Should both be lost, the time in seconds
 * is above all earlier ones, since no shard opens twice in a second: a repeated epoch could hide a lost event.
 */
export async function nextEpochs(sql: Sql, claims: Claim[], nowMs: number): Promise<Known> {
  const nowSeconds = Math.floor(nowMs / 1000);
  const rows = await sql<{ shard: number; epoch: number; bookedTo: string | null; isBehind: boolean | null }[]>`
    update shards set epoch = greatest(shards.epoch, survived.epoch) + 1
    from unnest(${claims.map(({ shard }) => shard)}::smallint[],
                ${claims.map(({ emptied, epoch }) => (emptied ? Math.max(epoch, nowSeconds) : epoch))}::bigint[],
                ${claims.map(({ lastEntry }) => lastEntry)}::text[]) as survived (shard, epoch, last_entry)
    where shards.shard = survived.shard
    returning shards.shard, shards.epoch, array_to_string(shards.booked_to, '-') as booked_to,
              string_to_array(survived.last_entry, '-')::bigint[] < shards.booked_to as is_behind`;
  return {
    epochs: new Map(rows.map(({ shard, epoch }) => [shard, epoch])),
    bookedTo: new Map(rows.flatMap(({ shard, bookedTo }) => (bookedTo ? [[shard, bookedTo]] : []))),
    isBehind: rows.some(({ isBehind }) => isBehind),
  };
}

/** Renews claims by an `apply` call with no records. A claim that has run out stays lost. */
export async function renew(node: RedisNode, token: string, claims: Claim[]): Promise<void> {
  await Promise.all(
    claims.map(({ shard }) => {
      const args = [`build:${token}`, node.notAfter(STEP_WITHIN_MS), 0];
      return node.script('apply', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    }),
  );
}

/**
 * Removes all records of shards: a leftover that Postgres lacks would stay forever. Their logs go on behind what the books have of the
 * ones before: should what was removed come back from an older file, it ends before that again.
 */
export async function wipe(node: RedisNode, token: string, claims: Claim[], { bookedTo }: Known): Promise<void> {
  const ours = new Set(claims.map((claim) => claim.shard));
  const remove = async (shard: number, names: string[], logAt = '') => {
    const keys = [keyspace.meta(shard), keyspace.outbox(shard), ...names];
    const [status] = await node.script('wipe', keys, [token, logAt], STEP_WITHIN_MS);
    if (status !== 'OK') throw new Error(`shard ${shard} was claimed by another builder`);
  };
  let cursor = '0';
  do {
    const [next, names] = await node.client.scan(cursor, 'MATCH', `{??}:[${KINDS}]:*`, 'COUNT', NAMES_AT_ONCE);
    cursor = next;
    const byShard = Map.groupBy(names, (name) => Number(name.slice(1, 3)));
    await Promise.all([...byShard].map(async ([shard, ofShard]) => ours.has(shard) && (await remove(shard, ofShard))));
  } while (cursor !== '0');
  await Promise.all([...ours].map((shard) => remove(shard, [], bookedTo.get(shard))));
}

/** Opens a shard that is up to date, as soon as it has been closed for long enough. */
export async function open(node: RedisNode, shard: number, args: (string | number)[]): Promise<void> {
  for (;;) {
    const [status, , waitMs] = await node.script('open', [keyspace.meta(shard)], args, STEP_WITHIN_MS);
    if (status === 'OPEN') return;
    if (status === 'LOST') throw new Error(`shard ${shard} was claimed by another builder`);
    await node.clock.sleep(Number(waitMs));
  }
}
