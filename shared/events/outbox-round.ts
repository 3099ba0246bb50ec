import { setTimeout as sleep } from 'node:timers/promises';
import { readEvent, UnreadableEvent, type UsageEvent } from './event.ts';
import { OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** The outbox streams of one Redis server, as one consumer of their group sees them. */
export type Outbox = {
  node: RedisNode;
  /** The shards that the server holds, and the stream of each in the same order. */
  shards: number[];
  streams: string[];
  consumer: string;
};

export type Entry = [id: string, fields: string[] | null];

/** What one round of reading took from an outbox. `at` is a stream's position in the outbox's list. */
export type Round = {
  /** The server that delivered the entries. Another one (restarted, failed over) may use the same ids for other entries. */
  runId: string;
  events: UsageEvent[];
  /** For each stream, the ids of the entries that are done once the events are delivered. */
  ids: string[][];
  unreadable: { at: number; id: string; fields: string[]; reason: string }[];
  entries: number;
};

// At most three batches are in memory. Batches of twice the size are hardly faster and take 50 MB more.
export const ENTRIES_PER_BATCH = 5_000;
// Redis serves no other client while it answers one of these reads.
export const ENTRIES_PER_STREAM = 128;
export const BEGINNING = '0-0';
export const ANSWER_WITHIN_MS = 5_000;
const NEW = '>';
const WAIT_MS = 1_000;
const LINGER_MS = 800;
const LOOK_EVERY_MS = 200;

/** An empty round of the server that answers now. */
export function startRound({ node, streams }: Outbox): Round {
  return { runId: node.runId(), events: [], ids: streams.map(() => []), unreadable: [], entries: 0 };
}

/** Adds entries of one stream to a round. */
export function addEntries(round: Round, at: number, entries: Entry[]): void {
  for (const [id, fields] of entries) {
    round.entries += 1;
    try {
      // An entry without fields was deleted by hand while it was pending. It only has to be acknowledged.
      if (fields) round.events.push(readEvent(fields));
      round.ids[at]!.push(id);
    } catch (error) {
      if (!(error instanceof UnreadableEvent) || !fields) throw error;
      round.unreadable.push({ at, id, fields, reason: error.message });
    }
  }
}

/** Reads rounds: of each stream first what is pending under this consumer's name, then what is new. */
export function makeRoundReader({ node, streams, consumer }: Outbox) {
  let cursors: string[] = [];

  return {
    /** Starts again with the pending entries: an answer that delivered some may have been lost. */
    restart(): void {
      cursors = streams.map(() => BEGINNING);
    },
    /** Returns 0.8 s after the first entry, when the batch is full, or after 1 s without an entry. Looks every 200 ms. */
    async fill(round: Round, signal: AbortSignal): Promise<void> {
      const emptyUntil = performance.now() + WAIT_MS;
      let fullUntil = Infinity;
      while (round.entries < ENTRIES_PER_BATCH && !signal.aborted) {
        const more = await readOnce(round);
        if (round.entries > 0) fullUntil = Math.min(fullUntil, performance.now() + LINGER_MS);
        const restMs = Math.min(fullUntil, round.entries > 0 ? Infinity : emptyUntil) - performance.now();
        if (restMs <= 0) return;
        if (!more) await sleep(Math.min(LOOK_EVERY_MS, restMs), undefined, { signal }).catch(() => {});
      }
    },
  };

  /**
   * Reads once from each stream and tells whether there is likely more. Each stream has a command of its own, because a
   * cluster refuses one command that reads streams of different slots.
   */
  async function readOnce(round: Round): Promise<boolean> {
    if (node.runId() !== round.runId) throw new Error('another redis server answers');
    const pipeline = node.client.pipeline();
    for (const [at, stream] of streams.entries()) {
      const cursor = cursors[at]!;
      pipeline.xreadgroup('GROUP', OUTBOX_GROUP, consumer, 'COUNT', ENTRIES_PER_STREAM, 'STREAMS', stream, cursor);
    }
    const answers = await withTimeout(ANSWER_WITHIN_MS, pipeline.exec());
    let more = false;
    let failure: Error | undefined;
    for (const at of streams.keys()) {
      const [error, answer] = answers?.[at] ?? [new Error('no answer to XREADGROUP')];
      failure ??= error ?? undefined;
      const [, entries] = (answer as [stream: string, Entry[]][] | null | undefined)?.[0] ?? ['', []];
      addEntries(round, at, entries);
      const readsPending = cursors[at] !== NEW;
      if (readsPending && !error) cursors[at] = entries.at(-1)?.[0] ?? NEW;
      more ||= readsPending || entries.length === ENTRIES_PER_STREAM;
    }
    // Thrown only now: the entries that other streams delivered are pending under our name and belong to this round.
    if (failure) throw failure;
    return more;
  }
}
