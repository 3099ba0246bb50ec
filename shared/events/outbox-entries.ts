import type { Clock } from '../runtime/clock.ts';
import { carryEvent, type CarriedEvent } from './carried-event.ts';
import { EVENT_FIELD, UnreadableEvent, valueOfEntry } from './event.ts';
import { carryOutcome, isOutcome, type CarriedOutcome } from './outcome.ts';
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

/** An entry, and how many events it holds beyond one. */
export type DoneEntry = { id: string; more: number };

/** What is no event in an entry: the whole entry, or a line of it. */
export type UnreadablePart = { fields: (Buffer | string)[]; reason: string };

/** What one round of reading took from an outbox. `at` is a stream's position in the outbox's list. */
export type Round = {
  /** The server that delivered the entries. Another one (restarted, failed over) may use the same ids for other entries. */
  runId: string;
  events: CarriedEvent[];
  outcomes: CarriedOutcome[];
  /** For each stream, the entries that are done once the events are delivered. */
  whole: DoneEntry[][];
  /** Entries that are done then and hold something that is no event, to be set aside. */
  spoiled: (DoneEntry & { at: number; parts: UnreadablePart[] })[];
  entries: number;
  /** Of their JSON. */
  bytes: number;
};

/** Entries that were read and are not on the disk of their server yet. */
export type WaitingEntries = {
  /** Adds entries of one stream to a round; those that are not on the disk wait. */
  add(round: Round, at: number, entries: readonly Entry[]): void;
  /** Adds the waiting entries to a round that are on the disk by now. */
  release(round: Round): Promise<void>;
  isEmpty(): boolean;
  isFull(): boolean;
  clear(): void;
};

const MOST_WAITING = 5_000;
const MOST_WAITING_BYTES = 2_000_000;
const ON_DISK_WITHIN_MS = 10_000;

/** An empty round of the server that answers now. */
export function startRound({ node, streams }: Outbox): Round {
  const none = { events: [], outcomes: [], spoiled: [], entries: 0, bytes: 0 };
  return { runId: node.runId(), whole: streams.map(() => []), ...none };
}

/** Whether a round has as much as a batch may. */
export function isFull({ events, outcomes, entries, bytes }: Round): boolean {
  return Math.max(events.length + outcomes.length, entries) >= EVENTS_PER_BATCH || bytes >= BYTES_PER_BATCH;
}

/** Reads the ids of entries as text. */
export function readEntries(entries: readonly RawEntry[]): Entry[] {
  return entries.map(([id, fields]) => [id.toString('latin1'), fields]);
}

/**
 * Lets entries wait until they are on the disk. If a server lost them after they were booked, it would have lost their
 * debits too: the books would then hold the event of the lost call beside the event of its repetition.
 */
export function waitForDisk(disk: DiskMark, clock: Clock): WaitingEntries {
  let waiting: { at: number; entry: Entry; readAt: number }[] = [];
  let waitingBytes = 0;
  const isOnDisk = ([id]: Entry, readAt: number) => disk.has(Number.parseInt(id, 10), readAt);

  return {
    add(round, at, entries) {
      const readAt = clock.monotonic();
      for (const entry of entries) {
        if (isOnDisk(entry, readAt)) addEntry(round, at, entry);
        else wait({ at, entry, readAt });
      }
    },
    async release(round) {
      await disk.look();
      const young = waiting.filter(({ entry, readAt }) => !isOnDisk(entry, readAt));
      for (const { at, entry, readAt } of waiting) if (isOnDisk(entry, readAt)) addEntry(round, at, entry);
      waiting = [];
      waitingBytes = 0;
      for (const one of young) wait(one);
      if (waiting[0] && clock.monotonic() - waiting[0].readAt > ON_DISK_WITHIN_MS)
        throw new Error('redis does not bring its append-only file to the disk');
    },
    isEmpty: () => waiting.length === 0,
    isFull: () => waiting.length >= MOST_WAITING || waitingBytes >= MOST_WAITING_BYTES,
    clear() {
      waiting = [];
      waitingBytes = 0;
    },
  };

  function wait(one: (typeof waiting)[number]): void {
    waiting.push(one);
    waitingBytes += one.entry[1]?.at(-1)?.length ?? 0;
  }
}

function addEntry(round: Round, at: number, [id, fields]: Entry): void {
  round.entries += 1;
  let lines: string[] = [];
  const parts: UnreadablePart[] = [];
  try {
    // An entry without fields was deleted by hand while it was pending. It only has to be acknowledged.
    if (fields) lines = valueOfEntry(fields).toString('latin1').split('\n');
  } catch (error) {
    parts.push({ fields: fields ?? [], reason: reasonOf(error) });
  }
  for (const line of lines) {
    round.bytes += line.length;
    try {
      if (isOutcome(line)) round.outcomes.push(carryOutcome(line));
      else round.events.push(carryEvent(Buffer.from(line, 'latin1')));
    } catch (error) {
      parts.push({ fields: [EVENT_FIELD, Buffer.from(line, 'latin1')], reason: reasonOf(error) });
    }
  }
  const more = Math.max(0, lines.length - 1);
  if (parts.length > 0) round.spoiled.push({ at, id, more, parts });
  else round.whole[at]!.push({ id, more });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof UnreadableEvent)) throw error;
  return error.message;
}
