import { setTimeout as sleep } from 'node:timers/promises';
import { readEvent, UnreadableEvent, type UsageEvent } from './event.ts';
import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop } from '../runtime/loop.ts';
import type { Running } from '../runtime/run.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** Events that were read together. Until they are acknowledged they may come again, here or in another consumer. */
export type Batch = { events: UsageEvent[]; acknowledge(): Promise<void> };

/** Where events come from. */
export type Source = {
  /** The next batch, full or about a second old; undefined when nothing came. Cut short by the signal. */
  read(signal: AbortSignal): Promise<Batch | undefined>;
};

type OutboxReaderOptions = {
  node: RedisNode;
  /** The shards that the server holds. */
  shards: number[];
  /** This consumer's name in its group; each running consumer has its own. */
  name: string;
  metrics: Metrics;
  log: Logger;
  /** For how long an entry must have been with a consumer until that one counts as dead. */
  claimIdleMs?: number;
};

type Entry = [id: string, fields: string[] | null];
type Unreadable = { at: number; id: string; fields: string[]; reason: string };
type Taken = {
  /** The server that gave them. Another one (restarted, taken over) may use the same ids for other entries. */
  runId: string;
  events: UsageEvent[];
  ids: string[][];
  unreadable: Unreadable[];
  entries: number;
};

// Up to three batches are in memory at a time; twice as many entries are hardly faster and take 50 MB more.
const ENTRIES_PER_BATCH = 5_000;
// Redis serves nobody else while it answers one of these reads.
const ENTRIES_PER_STREAM = 128;
const WAIT_MS = 1_000;
const LINGER_MS = 800;
const LOOK_EVERY_MS = 200;
const CLAIM_IDLE_MS = 30_000;
const CLAIM_EVERY_MS = 10_000;
const IDS_PER_CALL = 500;
const FOLLOW_EVERY_MS = 500;
const ANSWER_WITHIN_MS = 5_000;
const BEGINNING = '0-0';
const NEW = '>';

/**
 * Reads the outbox streams of one server's shards as a consumer of their group. Of each stream it first reads what was delivered
 * to it already but not acknowledged: at the start, and whenever an answer may have been lost on the way.
 */
export function outboxSource(parts: OutboxReaderOptions): Source {
  const { node, shards, name, metrics, log, claimIdleMs = CLAIM_IDLE_MS } = parts;
  // What follows speaks of streams by their place in this list.
  const streams = shards.map(keyspace.outbox);
  let runId = '';
  let cursors: string[] = [];
  let claimCursors: string[] = [];
  let nextClaimAt = 0;

  return {
    async read(signal) {
      const taken: Taken = {
        runId: node.runId(),
        events: [],
        ids: streams.map(() => []),
        unreadable: [],
        entries: 0,
      };
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
      await copied(taken);
      return { events: taken.events, acknowledge: () => acknowledge(taken) };
    },
  };

  /**
   * Waits until the replicas have what was taken. What the one that takes over lacks was never debited: in the books its
   * event would stand beside that of the repeated call.
   */
  async function copied({ runId: givenBy, ids }: Taken): Promise<void> {
    const at = ids.findIndex((some) => some.length > 0);
    if (at < 0) return;
    // Of entries that an earlier connection was given, this one has only read: taking one over is a write.
    const write = () => node.client.xclaim(streams[at]!, OUTBOX_GROUP, name, 0, ids[at]!.at(-1)!, 'JUSTID');
    try {
      await withTimeout(ANSWER_WITHIN_MS, node.copied(givenBy, write));
    } catch (error) {
      // They are pending under this name, and come again from there.
      runId = '';
      throw error;
    }
  }

  // With little traffic one look every 200 ms and one batch a second; with much, full batches without a pause.
  async function fill(taken: Taken, signal: AbortSignal): Promise<void> {
    const emptyUntil = performance.now() + WAIT_MS;
    let fullUntil = Infinity;
    while (taken.entries < ENTRIES_PER_BATCH && !signal.aborted) {
      const more = await take(taken);
      if (taken.entries > 0) fullUntil = Math.min(fullUntil, performance.now() + LINGER_MS);
      const restMs = Math.min(fullUntil, taken.entries > 0 ? Infinity : emptyUntil) - performance.now();
      if (restMs <= 0) return;
      if (!more) await sleep(Math.min(LOOK_EVERY_MS, restMs), undefined, { signal }).catch(() => {});
    }
  }

  /**
   * Reads once from each stream; gives whether there is likely more. A command for each, though one could read them all
   * and wait there: a cluster refuses to read streams of different slots with one.
   */
  async function take(taken: Taken): Promise<boolean> {
    if (node.runId() !== taken.runId) throw new Error('another redis server answers');
    const pipeline = node.client.pipeline();
    for (const [at, stream] of streams.entries()) {
      const cursor = cursors[at]!;
      pipeline.xreadgroup('GROUP', OUTBOX_GROUP, name, 'COUNT', ENTRIES_PER_STREAM, 'STREAMS', stream, cursor);
    }
    const answers = await withTimeout(ANSWER_WITHIN_MS, pipeline.exec());
    let more = false;
    let failure: Error | undefined;
    for (const at of streams.keys()) {
      const [error, answer] = answers?.[at] ?? [new Error('no answer to XREADGROUP')];
      failure ??= error ?? undefined;
      const [, entries] = (answer as [stream: string, Entry[]][] | null | undefined)?.[0] ?? ['', []];
      add(taken, at, entries);
      const old = cursors[at] !== NEW;
      if (old && !error) cursors[at] = entries.at(-1)?.[0] ?? NEW;
      more ||= old || entries.length === ENTRIES_PER_STREAM;
    }
    if (failure) throw failure;
    return more;
  }

  function add(taken: Taken, at: number, entries: Entry[]): void {
    for (const [id, fields] of entries) {
      taken.entries += 1;
      try {
        // Without fields: it was deleted by hand while it was pending, and there is nothing left to do for it.
        if (fields) taken.events.push(readEvent(fields));
        taken.ids[at]!.push(id);
      } catch (error) {
        if (!(error instanceof UnreadableEvent) || !fields) throw error;
        taken.unreadable.push({ at, id, fields, reason: error.message });
      }
    }
  }

  /** Makes missing groups, at 0: what was appended before the group was there belongs to it too. */
  async function begin(serverRunId: string): Promise<void> {
    const pipeline = node.client.pipeline();
    for (const stream of streams) pipeline.xgroup('CREATE', stream, OUTBOX_GROUP, '0', 'MKSTREAM');
    const answers = await withTimeout(ANSWER_WITHIN_MS, pipeline.exec());
    const failed = answers?.find(([error]) => error && !error.message.startsWith('BUSYGROUP'));
    if (failed) throw failed[0] as Error;
    cursors = streams.map(() => BEGINNING);
    claimCursors = streams.map(() => BEGINNING);
    runId = serverRunId;
  }

  /**
   * Takes over what consumers hold that are dead, or were slow to the same effect: a batch that takes longer than this
   * is written twice, which is harmless.
   */
  async function claim(taken: Taken): Promise<void> {
    if (node.runId() !== taken.runId) return;
    let before: number;
    do {
      before = taken.entries;
      const pipeline = node.client.pipeline();
      for (const [at, stream] of streams.entries()) {
        const from = claimCursors[at]!;
        pipeline.xautoclaim(stream, OUTBOX_GROUP, name, claimIdleMs, from, 'COUNT', ENTRIES_PER_STREAM);
      }
      const answers = await withTimeout(ANSWER_WITHIN_MS, pipeline.exec());
      for (const at of streams.keys()) {
        const [error, answer] = answers?.[at] ?? [new Error('no answer to XAUTOCLAIM')];
        if (error) throw error;
        const [next, entries] = answer as [string, Entry[]];
        claimCursors[at] = next;
        add(taken, at, entries);
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
    if (node.runId() !== givenBy) return;
    const calls = streams.flatMap((stream, at) => chunks(ids[at]!, IDS_PER_CALL).map((some) => ({ stream, some })));
    await withTimeout(
      ANSWER_WITHIN_MS,
      Promise.all(calls.map(({ stream, some }) => settle(node.client.multi(), stream, some))),
    );
    // After the others: a Redis without room refuses these, and has room again when those are gone.
    for (let one = unreadable[0]; one; one = unreadable[0]) {
      const { at, id, fields, reason } = one;
      const dead = keyspace.dead(shards[at]!);
      const multi = node.client.multi().xadd(dead, '*', 'reason', reason, 'entry', id, ...fields);
      await withTimeout(ANSWER_WITHIN_MS, settle(multi, streams[at]!, [id]));
      metrics.unreadableEvents.inc();
      log.error({ stream: streams[at], entry: id, reason }, 'an outbox entry is no event; it was set aside');
      unreadable.shift();
    }
  }
}

/**
 * Runs something for each server that holds shards, and follows the cluster: what runs for a server whose shards are
 * others now is stopped and started anew.
 */
export function perNode(
  redis: ShardedRedis,
  log: Logger,
  start: (node: RedisNode, shards: number[]) => Running,
): Running {
  const running = new Map<RedisNode, { shards: string; it: Running }>();
  const following = startLoop(FOLLOW_EVERY_MS, log, 'following the servers', async () => {
    const held = redis.byNode();
    const outdated = [...running].filter(([node, { shards }]) => held.get(node)?.join() !== shards);
    await Promise.all(outdated.map(([, { it }]) => it.stop()));
    for (const [node] of outdated) running.delete(node);
    for (const [node, shards] of held) {
      if (!running.has(node)) running.set(node, { shards: shards.join(), it: start(node, shards) });
    }
  });
  return {
    async stop() {
      await following.stop();
      await Promise.all([...running.values()].map(({ it }) => it.stop()));
    },
  };
}

async function settle(multi: ReturnType<RedisNode['client']['multi']>, stream: string, ids: string[]): Promise<void> {
  const answers = await multi
    .xack(stream, OUTBOX_GROUP, ...ids)
    .xdel(stream, ...ids)
    .exec();
  if (!answers) throw new Error('the transaction was not executed');
  for (const [error] of answers) if (error) throw error;
}

function chunks<T>(items: T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
