import { ApiError } from '../contract/errors.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { runPipeline } from '../stores/pipeline.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop } from '../runtime/loop.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { unlessWritten, type WriteLook } from '../stores/unless-written.ts';
import { chunks } from '../values/chunks.ts';

type OutboxLimits = {
  /** Events, however many share an entry. */
  maxEntries: number;
  /** Share of a server's `maxmemory` from which on the outbox is full. A server without `maxmemory` has only the other limit. */
  maxMemoryPercent: number;
};

/** What a look at a server found: its memory, its clock, and how many events its outboxes hold, the oldest from which time. */
type Look = WriteLook & { server: string; memory: Memory; events: number; oldestMs: number };
type Memory = { usedBytes: number; limitBytes: number };

const EVERY_MS = 500;
const WITHIN_MS = 1_000;
// Full until it is so far below its limit: else each second event of a full outbox would be refused.
const FULL_UNTIL_PERCENT = 5;
// New records and holds stop this far below. They stay, so if they filled Redis up to the other limit, metered verifications would
// be refused for good.
const NO_RECORDS_PERCENT = 10;
// What may be lost stops here, of the most entries, and of memory with new records.
const SPARE_PERCENT = 10;

/**
 * Watches how much waits in Redis and how much memory it has left, so that debits stop well before it takes nothing more: looks at
 * every server and its outboxes twice a second.
 */
export function watchOutbox(
  redis: ShardedRedis,
  { maxEntries, maxMemoryPercent }: OutboxLimits,
  metrics: Metrics,
  log: Logger,
) {
  let full = false;
  let looked = false;
  let usedPercent = 0;
  let waiting = 0;
  if (Number.isFinite(maxEntries)) metrics.outboxMaxEntries.set(maxEntries);
  const loop = startLoop(redis.clock, EVERY_MS, log, 'watching the outbox', async () => {
    const looks = await lookAtServers(redis);
    const { events, oldestAgeMs } = stateOf(looks);
    usedPercent = Math.max(0, ...looks.map(({ memory }) => (100 * memory.usedBytes) / memory.limitBytes));
    const short = usedPercent >= maxMemoryPercent - (full ? FULL_UNTIL_PERCENT : 0);
    note(events >= maxEntries || short, events);
    waiting = events;
    metrics.outboxEntries.set(events);
    metrics.outboxAgeSeconds.set(oldestAgeMs / 1000);
    showMemories(metrics, looks);
    looked = true;
  });
  redis.onReady(loop.soon);

  function note(now: boolean, events: number): void {
    const state = { events, memoryPercent: Math.round(usedPercent) };
    if (now && !full) log.warn(state, 'the outbox is full; metered verifications are refused until it drains');
    if (!now && full) log.info(state, 'the outbox is no longer full');
    full = now;
  }

  const isShort = () => usedPercent >= maxMemoryPercent - NO_RECORDS_PERCENT;
  return {
    ...loop,
    /** Whether no usage event may be added: no billing record is debited until the outbox drains. */
    full: () => full,
    /** Throws while memory is too short for new records and holds. */
    requireMemory(): void {
      if (isShort()) throw new ApiError('memory_short');
    },
    /** Throws until it has looked once: a program that does not know how full Redis is serves nobody yet. */
    requireLook(): void {
      if (!looked) throw new Error('how full Redis is is not known yet');
    },
    /** Whether there is room for what may wait or be lost, such as counts: far more than events need. */
    hasSpareRoom: () => !full && !isShort() && waiting < (maxEntries * SPARE_PERCENT) / 100,
  };
}

/** The memory of a server, by its INFO, as Redis counts it for `maxmemory`: without the buffers of its replicas and its append-only file. */
export function memoryIn(info: string): Memory {
  const bytes = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return {
    usedBytes: bytes('used_memory') - bytes('mem_not_counted_for_evict'),
    limitBytes: bytes('maxmemory') || Infinity,
  };
}

function showMemories(metrics: Metrics, looks: Look[]): void {
  metrics.redisMemoryBytes.reset();
  metrics.redisMemoryLimitBytes.reset();
  for (const { server, memory } of looks) {
    metrics.redisMemoryBytes.set({ server }, memory.usedBytes);
    if (memory.limitBytes < Infinity) metrics.redisMemoryLimitBytes.set({ server }, memory.limitBytes);
  }
}

/** How many usage events wait in all outboxes, and the age of the oldest by Redis's clock. */
export async function outboxState(redis: ShardedRedis): Promise<{ events: number; oldestAgeMs: number }> {
  return stateOf(await lookAtServers(redis));
}

function stateOf(looks: Look[]): { events: number; oldestAgeMs: number } {
  return {
    events: looks.reduce((sum, { events }) => sum + events, 0),
    oldestAgeMs: Math.max(0, ...looks.map(({ nowMs, oldestMs }) => nowMs - oldestMs)),
  };
}

/**
 * The moment (Redis's clock, in ms) before which every event has left the outbox, on all servers, and a mark that stays while none of them
 * is written.
 */
export async function outboxWatermark(redis: ShardedRedis): Promise<{ beforeMs: number; mark: string }> {
  const looks = await lookAtServers(redis);
  const beforeMs = Math.min(...looks.flatMap(({ nowMs, oldestMs }) => [nowMs, oldestMs]));
  return { beforeMs, mark: looks.map(({ mark }) => mark || beforeMs).join() };
}

/** Looks at each server: at its outboxes only if it was written since the last look. */
async function lookAtServers(redis: ShardedRedis): Promise<Look[]> {
  return Promise.all(
    [...redis.byNode()].map(async ([node, shards]) => {
      const { client, clock } = node;
      const [{ read, ...look }, memory] = await Promise.all([
        readOutboxes(node, shards, WITHIN_MS),
        withTimeout(clock, WITHIN_MS, client.info('memory')),
      ]);
      return { server: `${client.options.host}:${client.options.port}`, memory: memoryIn(memory), ...look, ...read };
    }),
  );
}

const readOutboxes = unlessWritten(async ({ client, clock }, shards, withinMs) => {
  const pipeline = client.pipeline();
  for (const shard of shards) {
    pipeline.xlen(keyspace.outbox(shard));
    pipeline.get(keyspace.more(shard));
    pipeline.xrange(keyspace.outbox(shard), '-', '+', 'COUNT', 1);
  }
  const ofShards = chunks(await runPipeline(clock, pipeline, withinMs), 3);
  const events = ofShards.reduce((sum, [length, more]) => sum + eventsIn(length, more), 0);
  const firsts = ofShards.flatMap(([, , first]) => first as [id: string, fields: string[]][]);
  return { events, oldestMs: Math.min(...firsts.map(timeOf)) };
});

// Redis dates an entry when it appends it, and a script dates its events when it begins: a pause of the machine may lie between.
function timeOf([id, fields]: [id: string, fields: string[]]): number {
  const eventMs = /,"t":(\d+)/.exec(fields[1] ?? '')?.[1] ?? Infinity;
  return Math.min(Number(id.split('-')[0]), Number(eventMs));
}

/** How many events an outbox holds: its length, and what `keyspace.more` counts, which means nothing for an empty one. */
export function eventsIn(length: unknown, more: unknown): number {
  const entries = Number(length ?? 0);
  return entries === 0 ? 0 : entries + Math.max(0, Number(more ?? 0) || 0);
}
