import { setTimeout as sleep } from 'node:timers/promises';
import { eventColumns, eventRow, dayOf } from '../../shared/events/event.ts';
import { openShards } from '../../shared/stores/fence.ts';
import { keyspace, meterShard } from '../../shared/stores/keyspace.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { newId } from '../../shared/values/ids.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { eventually } from '../../tests/helpers/eventually.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { untilWritten } from '../../tests/helpers/own-redis.ts';
import type { Operation } from './operations.ts';
import type { HistoryWorld } from './world.ts';

type Behind = { id: string; shard: number; name: string };

const AT_ONCE = 10_000;
const EVENTS_EACH = 2;
const COST_MICROS = 3;
const USED = String(EVENTS_EACH * COST_MICROS);
/** Whoever looks takes as little as can be of the time that is measured. */
const LOOKED_AT_ONCE = 250;
const LOOK_EVERY_MS = 50;
const ASK_WITHIN_MS = 2_000;
/** The share of records that are settled when the api is killed. */
const KILL_AT_SHARE = 0.05;

/** Makes records that are in Redis, and books that have events which Redis lacks: it has lost the end of its file. */
async function makeRecordsBehind(world: HistoryWorld, count: number, signal: AbortSignal): Promise<Behind[]> {
  const records = Array.from({ length: count }, (_, i): Behind => {
    const name = `behind-${i}`;
    return { id: newId('bill'), name, shard: meterShard(world.workspaceId, name) };
  });
  for (const some of chunks(records, AT_ONCE)) await insertRecords(world, some);
  const { code, output } = await world.command('rebuild', signal);
  if (code !== 0) throw new Error(`rebuild ended with ${code}: ${output.trim()}`);
  const open = await eventually('every shard is open', async () => {
    const found = await openShards(world.shards, ASK_WITHIN_MS);
    return found.size === ALL_SHARDS.length ? found : undefined;
  });
  for (const some of chunks(records, AT_ONCE)) await bookEvents(world, some, (shard) => open.get(shard)!.epoch);
  return records;
}

/** Redis starts again, behind the books of so many records; the api is killed while it settles them. */
export function settleBehind(count: number, withinSeconds: number): Operation {
  let records: Behind[] = [];
  return {
    name: `${count.toLocaleString('en')} records behind, the api killed`,
    withinSeconds,
    async prepare(world, signal) {
      records = await makeRecordsBehind(world, count, signal);
      await startRedisAgain(world);
    },
    async work(world, signal) {
      const { redis, shards, workspaceId } = world;
      const names = records.map(({ shard, name }) => keyspace.billing(shard, workspaceId, name));
      let settled = 0;
      let restarted: Promise<void> | undefined;
      while (settled < names.length) {
        signal.throwIfAborted();
        settled = await settledUpTo(redis.admin, names, settled);
        if (!restarted && (settled >= names.length * KILL_AT_SHARE || (await areOpen(shards))))
          restarted = world.restartApi();
        await sleep(LOOK_EVERY_MS);
      }
      await (restarted ?? world.restartApi());
      while (!(await areOpen(shards))) {
        signal.throwIfAborted();
        await sleep(LOOK_EVERY_MS);
      }
    },
  };
}

async function areOpen(shards: HistoryWorld['shards']): Promise<boolean> {
  return (await openShards(shards, ASK_WITHIN_MS)).size === ALL_SHARDS.length;
}

/** Redis dies, with all that it was given on its disk, and comes back. */
async function startRedisAgain({ redis }: HistoryWorld): Promise<void> {
  await untilWritten(redis.admin);
  await redis.end('SIGKILL');
  await redis.start();
}

/** How many records are settled, counted from the first on without a gap; those up to `from` are known to be. */
async function settledUpTo(admin: HistoryWorld['redis']['admin'], names: string[], from: number): Promise<number> {
  for (let at = from; at < names.length; at += LOOKED_AT_ONCE) {
    const some = names.slice(at, at + LOOKED_AT_ONCE);
    const pipeline = admin.pipeline();
    for (const name of some) pipeline.hget(name, 'u');
    const answers = (await pipeline.exec().catch(() => undefined)) ?? [];
    const first = some.findIndex((_, i) => answers[i]?.[1] !== USED);
    if (first !== -1) return at + first;
  }
  return names.length;
}

async function insertRecords({ world, workspaceId }: HistoryWorld, some: Behind[]): Promise<void> {
  await world.sql`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
    select id, ${world.team.id}, ${workspaceId}, name, shard, 1000000000, false
    from unnest(${some.map(({ id }) => id)}::text[], ${some.map(({ name }) => name)}::text[],
                ${some.map(({ shard }) => shard)}::int[]) as made (id, name, shard)`;
}

async function bookEvents(
  { world, books, workspaceId }: HistoryWorld,
  some: Behind[],
  epochOf: (shard: number) => number,
): Promise<void> {
  const timeMs = Date.now();
  const events = some.flatMap(({ id, shard }) =>
    Array.from({ length: EVENTS_EACH }, (_, i) =>
      testEvent({
        billingId: id,
        workspaceId,
        timeMs,
        epoch: epochOf(shard),
        costMicros: COST_MICROS,
        usedMicros: COST_MICROS * (i + 1),
        sequence: i + 1,
      }),
    ),
  );
  await books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: events.map(eventRow),
    format: 'JSONCompactEachRow',
  });
  await world.sql`
    insert into usage_marks (workspace_id, billing_id, day)
    select ${workspaceId}, unnest(${some.map(({ id }) => id)}::text[]), ${dayOf(timeMs)}
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
}
