import { IS_CHANGE } from '../../../shared/books/sums/day-sums.ts';
import type { SettlerStores } from '../../../shared/books/settling/settler.ts';
import { noteUnsettled } from '../../../shared/books/settling/unsettled-records.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import { openShards } from '../../../shared/stores/fence.ts';
import { orGiveUp, type Sql } from '../../../shared/stores/postgres.ts';

// How far apart the clocks of Redis and ClickHouse may be. Events that a larger difference hides, reconcile finds.
const CLOCKS_APART_MS = 5 * 60_000;
const LOOK_EVERY_MS = 1_000;
const LOOK_WITHIN_MS = 1_000;
const IDS_AT_ONCE = 1_000;

/** Notes what is behind in shards that opened before the books could be looked through, until stopped. */
export function startNotingBehind(stores: SettlerStores): Loop {
  const stopping = new AbortController();
  const loop = startLoop(
    stores.redis.clock,
    LOOK_EVERY_MS,
    stores.log,
    'looking for balances behind the books',
    async () => {
      const open = await openShards(stores.redis, LOOK_WITHIN_MS);
      await noteBehind(stores, [...open.keys()], stopping.signal);
    },
  );
  return {
    ...loop,
    stop() {
      stopping.abort();
      return loop.stop();
    },
  };
}

/**
 * Notes the records of these shards of which the books may have events that the shard lacks: events that arrived there
 * since the shard's newest data. It stops at the signal, or dies; Postgres keeps up to which record it came, so that
 * whoever goes on notes none again that may be settled by then.
 */
export async function noteBehind({ sql, books }: SettlerStores, shards: number[], signal: AbortSignal): Promise<void> {
  const behind = await orGiveUp(sql<Behind[]>`
    select shard, epoch, behind_since as since, behind_from_epoch as from_epoch,
           case when looked_in_epoch = epoch then looked_up_to else '' end as after
    from shards where shard = any(${shards}) and behind_since is not null`);
  if (behind.length === 0) return;
  const sinceMs = Math.min(...behind.map(({ since }) => since)) - CLOCKS_APART_MS;
  const fromEpoch = Math.min(...behind.map((one) => one.fromEpoch));
  // A shard that was reopened meanwhile has another epoch, and has to be looked through again.
  const inTheirEpochs = () => sql`
    from unnest(${behind.map(({ shard }) => shard)}::smallint[], ${behind.map(({ epoch }) => epoch)}::bigint[]) as looked (shard, epoch)
    where shards.shard = looked.shard and shards.epoch = looked.epoch`;
  const [first = ''] = behind.map(({ after }) => after).toSorted();
  for await (const later of laterInBooks(books, { sinceMs: Math.max(0, sinceMs), epoch: fromEpoch, after: first })) {
    if (signal.aborted) return;
    await noteUnsettled(sql, await behindTheirShards(sql, later, shards));
    await orGiveUp(sql`
      update shards set looked_in_epoch = looked.epoch, looked_up_to = ${later.at(-1)!.id} ${inTheirEpochs()}`);
  }
  await orGiveUp(sql`update shards set behind_since = null, behind_from_epoch = null ${inTheirEpochs()}`);
}

/** A shard that has to be looked through; `after` is the record up to which that was done. */
type Behind = { shard: number; epoch: number; since: number; fromEpoch: number; after: string };

/** The newest event of a record that arrived in the books since then: when it did, in ms, and the highest epoch of all those. */
type Later = { id: string; atMs: number; epoch: number };

/** The records with events that arrived in the books since then, some at a time: neighbours there, to be read together. */
async function* laterInBooks(
  { client }: Books,
  query_params: { sinceMs: number; epoch: number; after: string },
): AsyncGenerator<Later[]> {
  const answer = await client.query({
    query: `select billing_id, toUnixTimestamp64Milli(max(inserted_at)), max(epoch) from usage_events
            where inserted_at >= fromUnixTimestamp64Milli({sinceMs:Int64}) and billing_id > {after:String}
              and epoch >= {epoch:UInt32} and ${IS_CHANGE}
            group by billing_id order by billing_id`,
    query_params,
    format: 'JSONCompactEachRow',
  });
  for await (const rows of answer.stream<[id: string, atMs: string, epoch: number]>()) {
    const found = rows.map((row) => row.json()).map(([id, atMs, epoch]) => ({ id, atMs: Number(atMs), epoch }));
    for (let i = 0; i < found.length; i += IDS_AT_ONCE) yield found.slice(i, i + IDS_AT_ONCE);
  }
}

/** The ids of those records that have events which their own shard may lack: an idle shard looks back for long. */
async function behindTheirShards(sql: Sql, later: Later[], shards: number[]): Promise<string[]> {
  const rows = await orGiveUp(sql<{ id: string }[]>`
    select b.id
    from unnest(${later.map(({ id }) => id)}::text[], ${later.map(({ atMs }) => atMs)}::bigint[],
                ${later.map((one) => one.epoch)}::bigint[]) as later (id, at_ms, epoch)
    cross join lateral (select id, shard from billing_records where id = later.id limit 1) as b
    join shards s on s.shard = b.shard
    where s.shard = any(${shards}) and later.at_ms >= s.behind_since - ${CLOCKS_APART_MS}::bigint
      and later.epoch >= s.behind_from_epoch
    order by b.id`);
  return rows.map(({ id }) => id);
}
