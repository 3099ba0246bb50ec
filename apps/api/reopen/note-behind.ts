import type { SettlerStores } from '../../../shared/books/settler.ts';
import { noteUnsettled } from '../../../shared/books/unsettled-records.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import { openShards } from '../../../shared/stores/fence.ts';
import { orGiveUp } from '../../../shared/stores/postgres.ts';

// How far apart the clocks of Redis and ClickHouse may be. Events that a larger difference hides, reconcile finds.
const CLOCKS_APART_MS = 5 * 60_000;
const LOOK_EVERY_MS = 1_000;
const LOOK_WITHIN_MS = 1_000;
const IDS_AT_ONCE = 1_000;

/** Notes what is behind in shards that opened before the books could be looked through, until stopped. */
export function startNotingBehind(stores: SettlerStores): Loop {
  const stopping = new AbortController();
  const loop = startLoop(LOOK_EVERY_MS, stores.log, 'looking for balances behind the books', async () => {
    const open = await openShards(stores.redis, LOOK_WITHIN_MS);
    await noteBehind(stores, [...open.keys()], stopping.signal);
  });
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
 * since the shard's newest data. It stops at the signal; what was not looked through is kept in Postgres.
 */
export async function noteBehind({ sql, books }: SettlerStores, shards: number[], signal: AbortSignal): Promise<void> {
  const behind = await orGiveUp(sql<{ shard: number; epoch: number; since: number; fromEpoch: number }[]>`
    select shard, epoch, behind_since as since, behind_from_epoch as from_epoch from shards
    where shard = any(${shards}) and behind_since is not null`);
  if (behind.length === 0) return;
  const sinceMs = Math.min(...behind.map(({ since }) => since)) - CLOCKS_APART_MS;
  const fromEpoch = Math.min(...behind.map((one) => one.fromEpoch));
  for await (const ids of laterInBooks(books, Math.max(0, sinceMs), fromEpoch)) {
    if (signal.aborted) return;
    await noteUnsettled(
      sql,
      ids,
      behind.map(({ shard }) => shard),
    );
  }
  // A shard that was reopened meanwhile has another epoch, and has to be looked through again.
  await orGiveUp(sql`
    update shards set behind_since = null, behind_from_epoch = null
    from unnest(${behind.map(({ shard }) => shard)}::smallint[], ${behind.map(({ epoch }) => epoch)}::bigint[]) as done (shard, epoch)
    where shards.shard = done.shard and shards.epoch = done.epoch`);
}

/** The ids of records with events that arrived in the books since then, some at a time: neighbours there, to be read together. */
async function* laterInBooks({ client }: Books, sinceMs: number, epoch: number): AsyncGenerator<string[]> {
  const answer = await client.query({
    query: `select distinct billing_id from usage_events
            where inserted_at >= fromUnixTimestamp64Milli({sinceMs:Int64}) and billing_id != ''
              and epoch >= {epoch:UInt32} and kind in ('verification', 'adjustment')
            order by billing_id`,
    query_params: { sinceMs, epoch },
    format: 'JSONCompactEachRow',
  });
  for await (const rows of answer.stream<[id: string]>()) {
    const ids = rows.map((row) => row.json()[0]);
    for (let i = 0; i < ids.length; i += IDS_AT_ONCE) yield ids.slice(i, i + IDS_AT_ONCE);
  }
}
