import { carryEvent, type CarriedEvent } from './carried-event.ts';
import { eventOfEntry, UnreadableEvent } from './event.ts';
import type { DiskMark } from '../stores/disk-mark.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import { BYTES_PER_BATCH, EVENTS_PER_BATCH } from './source.ts';

/** The outbox streams of one Redis server, as one consumer of their group sees them. */
export type Outbox = {
  node: RedisNode;
  /** The shards that the server holds, and the stream of each in the same order. */
  shards: number[];
  streams: string[];
  consumer: string;
};

export type Entry = [id: string, fields: Buffer[] | null];
/** An entry as Redis answers it. */
export type RawEntry = [id: Buffer, fields: Buffer[] | null];

/** What one round of reading took from an outbox. `at` is a stream's position in the outbox's list. */
export type Round = {
  /** The server that delivered the entries. Another one (restarted, failed over) may use the same ids for other entries. */
  runId: string;
  events: CarriedEvent[];
  /** For each stream, the ids of the entries that are done once the events are delivered. */
  ids: string[][];
  unreadable: { at: number; id: string; fields: Buffer[]; reason: string }[];
  entries: number;
  /** Of the events' JSON. */
  bytes: number;
};

/** Entries that were read and are not on the disk of their server yet. */
export type HeldEntries = {
  /** Adds entries of one stream to a round; holds those back that are not on the disk. */
  add(round: Round, at: number, entries: readonly Entry[]): void;
  /** Adds the held entries to a round that are on the disk by now. */
  release(round: Round): Promise<void>;
  isEmpty(): boolean;
  isFull(): boolean;
  clear(): void;
};

const MOST_HELD = 5_000;
const HELD_WITHIN_MS = 10_000;

/** An empty round of the server that answers now. */
export function startRound({ node, streams }: Outbox): Round {
  return { runId: node.runId(), events: [], ids: streams.map(() => []), unreadable: [], entries: 0, bytes: 0 };
}

/** Whether a round has as much as a batch may. */
export function isFull({ entries, bytes }: Round): boolean {
  return entries >= EVENTS_PER_BATCH || bytes >= BYTES_PER_BATCH;
}

/** Reads the ids of entries as text. */
export function readEntries(entries: readonly RawEntry[]): Entry[] {
  return entries.map(([id, fields]) => [id.toString('latin1'), fields]);
}

/**
 * Holds entries back until they are on the disk. If a server lost them after they were booked, it would have lost their
 * debits too: the books would then hold the event of the lost call beside the event of its repetition.
 */
export function holdUntilOnDisk(disk: DiskMark): HeldEntries {
  let held: { at: number; entry: Entry; readAt: number }[] = [];
  const isOnDisk = ([id]: Entry, readAt: number) => disk.has(Number.parseInt(id, 10), readAt);

  return {
    add(round, at, entries) {
      const readAt = performance.now();
      for (const entry of entries) {
        if (isOnDisk(entry, readAt)) addEntry(round, at, entry);
        else held.push({ at, entry, readAt });
      }
    },
    async release(round) {
      await disk.look();
      const young = held.filter(({ entry, readAt }) => !isOnDisk(entry, readAt));
      for (const { at, entry, readAt } of held) if (isOnDisk(entry, readAt)) addEntry(round, at, entry);
      held = young;
      if (held[0] && performance.now() - held[0].readAt > HELD_WITHIN_MS)
        throw new Error('redis does not bring its append-only file to the disk');
    },
    isEmpty: () => held.length === 0,
    isFull: () => held.length >= MOST_HELD,
    clear() {
      held = [];
    },
  };
}

function addEntry(round: Round, at: number, [id, fields]: Entry): void {
  round.entries += 1;
  try {
    // An entry without fields was deleted by hand while it was pending. It only has to be acknowledged.
    if (fields) {
      const value = eventOfEntry(fields);
      round.events.push(carryEvent(value));
      round.bytes += value.length;
    }
    round.ids[at]!.push(id);
  } catch (error) {
    if (!(error instanceof UnreadableEvent) || !fields) throw error;
    round.unreadable.push({ at, id, fields, reason: error.message });
  }
}
