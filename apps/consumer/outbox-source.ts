import { setTimeout as sleep } from 'node:timers/promises';
import { readEvent, UnreadableEvent, type UsageEvent } from '../../shared/event.ts';
import { SHARDS } from '../../shared/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/keyspace.ts';
import type { Logger } from '../../shared/log.ts';
import type { Metrics } from '../../shared/metrics.ts';
import type { RedisLink } from '../../shared/redis.ts';
import { within } from '../../shared/within.ts';
import type { Source } from './consume.ts';

type Parts = {
  /** A connection that may block, for reading alone. */
  reader: RedisLink;
  /** Another one for all else. */
  link: RedisLink;
  /** This consumer's name in its group; each running consumer has its own. */
  name: string;
  metrics: Metrics;
  log: Logger;
  /** For how long an entry must have been with a consumer until that one counts as dead. */
  claimIdleMs?: number;
};

type Entry = [id: string, fields: string[] | null];
type Unreadable = { shard: number; id: string; fields: string[]; reason: string };
type Taken = {
  /** The server that gave them. Another one (restarted, taken over) may use the same ids for other entries. */
  runId: string;
  events: UsageEvent[];
  ids: string[][];
  unreadable: Unreadable[];
  entries: number;
};

const ENTRIES_PER_BATCH = 10_000;
// Redis serves nobody else while it answers: at most 64 times this many entries, 2 to 3 ms.
const ENTRIES_PER_STREAM = 32;
const BLOCK_MS = 1_000;
const LINGER_MS = 800;
const LOOK_EVERY_MS = 200;
const CLAIM_IDLE_MS = 30_000;
const CLAIM_EVERY_MS = 10_000;
const IDS_PER_CALL = 500;
const ANSWER_WITHIN_MS = 5_000;
const BEGINNING = '0-0';
const NEW = '>';

const shards = Array.from({ length: SHARDS }, (_, shard) => shard);
const streams = shards.map(keyspace.outbox);

/**
 * Reads the outbox streams of all shards as a consumer of their group. Of each stream it first reads what was delivered
 * to it already but not acknowledged: at the start, and whenever an answer may have been lost on the way.
 */
export function outboxSource({ reader, link, name, metrics, log, claimIdleMs = CLAIM_IDLE_MS }: Parts): Source {
  let runId = '';
  let cursors: string[] = [];
  let claimCursors: string[] = [];
  let nextClaimAt = 0;

  return {
    async read(signal) {
      const taken: Taken = { runId: reader.runId(), events: [], ids: shards.map(() => []), unreadable: [], entries: 0 };
      try {
        if (taken.runId !== runId) await begin(taken.runId);
        if (performance.now() >= nextClaimAt) await claim(taken);
        await fill(taken, signal);
      } catch (error) {
        runId = '';
        if (taken.entries === 0) throw error;
        log.warn({ error }, 'reading usage events was cut short');
      }
      if (taken.entries === 0) return undefined;
      return { events: taken.events, acknowledge: () => acknowledge(taken) };
    },
  };

  // With little traffic one look every 200 ms and one insert a second; with much, full batches without a pause.
  async function fill(taken: Taken, signal: AbortSignal): Promise<void> {
    let lingerUntil = performance.now() + LINGER_MS;
    while (taken.entries < ENTRIES_PER_BATCH && !signal.aborted) {
      const waited = taken.entries === 0;
      const more = await take(taken, waited ? BLOCK_MS : 0);
      if (taken.entries === 0) return;
      if (waited) lingerUntil = performance.now() + LINGER_MS;
      const restMs = lingerUntil - performance.now();
      if (restMs <= 0) return;
      if (!more) await sleep(Math.min(LOOK_EVERY_MS, restMs), undefined, { signal }).catch(() => {});
    }
  }

  /** Reads once from all streams; gives whether there is likely more. */
  async function take(taken: Taken, blockMs: number): Promise<boolean> {
    if (reader.runId() !== taken.runId) throw new Error('another redis server answers');
    const block = blockMs > 0 && cursors.every((cursor) => cursor === NEW) ? (['BLOCK', blockMs] as const) : [];
    const args = ['COUNT', ENTRIES_PER_STREAM, ...block, 'STREAMS', ...streams, ...cursors];
    const read = reader.client.xreadgroup as (...args: (string | number)[]) => Promise<[string, Entry[]][] | null>;
    const answer = await within(
      blockMs + ANSWER_WITHIN_MS,
      read.call(reader.client, 'GROUP', OUTBOX_GROUP, name, ...args),
    );

    let more = false;
    for (const [stream, entries] of answer ?? []) {
      const shard = streams.indexOf(stream);
      add(taken, shard, entries);
      const old = cursors[shard] !== NEW;
      if (old) cursors[shard] = entries.at(-1)?.[0] ?? NEW;
      more ||= old || entries.length === ENTRIES_PER_STREAM;
    }
    return more;
  }

  function add(taken: Taken, shard: number, entries: Entry[]): void {
    for (const [id, fields] of entries) {
      taken.entries += 1;
      try {
        // Without fields: it was deleted by hand while it was pending, and there is nothing left to do for it.
        if (fields) taken.events.push(readEvent(fields));
        taken.ids[shard]!.push(id);
      } catch (error) {
        if (!(error instanceof UnreadableEvent) || !fields) throw error;
        taken.unreadable.push({ shard, id, fields, reason: error.message });
      }
    }
  }

  /** Makes missing groups, at 0: what was appended before the group was there belongs to it too. */
  async function begin(serverRunId: string): Promise<void> {
    const pipeline = link.client.pipeline();
    for (const stream of streams) pipeline.xgroup('CREATE', stream, OUTBOX_GROUP, '0', 'MKSTREAM');
    const answers = await within(ANSWER_WITHIN_MS, pipeline.exec());
    const failed = answers?.find(([error]) => error && !error.message.startsWith('BUSYGROUP'));
    if (failed) throw failed[0] as Error;
    cursors = shards.map(() => BEGINNING);
    claimCursors = shards.map(() => BEGINNING);
    runId = serverRunId;
  }

  /**
   * Takes over what consumers hold that are dead, or were slow to the same effect: a batch that takes longer than this
   * is written twice, which is harmless.
   */
  async function claim(taken: Taken): Promise<void> {
    if (link.runId() !== taken.runId) return;
    let before: number;
    do {
      before = taken.entries;
      const pipeline = link.client.pipeline();
      for (const shard of shards) {
        const from = claimCursors[shard]!;
        pipeline.xautoclaim(streams[shard]!, OUTBOX_GROUP, name, claimIdleMs, from, 'COUNT', ENTRIES_PER_STREAM);
      }
      const answers = await within(ANSWER_WITHIN_MS, pipeline.exec());
      for (const shard of shards) {
        const [error, answer] = answers?.[shard] ?? [new Error('no answer to XAUTOCLAIM')];
        if (error) throw error;
        const [next, entries] = answer as [string, Entry[]];
        claimCursors[shard] = next;
        add(taken, shard, entries);
      }
    } while (taken.entries > before && taken.entries < ENTRIES_PER_BATCH);
    if (taken.entries > 0) log.info({ entries: taken.entries }, 'took over entries that were pending for long');
    nextClaimAt = taken.entries > before ? 0 : performance.now() + CLAIM_EVERY_MS;
  }

  /**
   * Acknowledges and deletes, both or neither: an entry that was only acknowledged would stay forever. What another
   * server gave is left alone; what that one still held for us is read and written again.
   */
  async function acknowledge({ runId: givenBy, ids, unreadable }: Taken): Promise<void> {
    if (link.runId() !== givenBy) return;
    const calls = shards.flatMap((shard) => chunks(ids[shard]!, IDS_PER_CALL).map((some) => ({ shard, some })));
    await within(
      ANSWER_WITHIN_MS,
      Promise.all(calls.map(({ shard, some }) => settle(link.client.multi(), shard, some))),
    );
    // After the others: a Redis without room refuses these, and has room again when those are gone.
    for (let one = unreadable[0]; one; one = unreadable[0]) {
      const { shard, id, fields, reason } = one;
      const multi = link.client.multi().xadd(keyspace.dead(shard), '*', 'reason', reason, 'entry', id, ...fields);
      await within(ANSWER_WITHIN_MS, settle(multi, shard, [id]));
      metrics.unreadableEvents.inc();
      log.error({ stream: streams[shard], entry: id, reason }, 'an outbox entry is no event; it was set aside');
      unreadable.shift();
    }
  }
}

async function settle(multi: ReturnType<RedisLink['client']['multi']>, shard: number, ids: string[]): Promise<void> {
  const answers = await multi
    .xack(streams[shard]!, OUTBOX_GROUP, ...ids)
    .xdel(streams[shard]!, ...ids)
    .exec();
  if (!answers) throw new Error('the transaction was not executed');
  for (const [error] of answers) if (error) throw error;
}

function chunks<T>(items: T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
