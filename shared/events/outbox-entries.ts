import type { Clock } from '../runtime/clock.ts';
import { carryEvent, type CarriedEvent } from './carried-event.ts';
import { EVENT_FIELD, UnreadableEvent, valueOfEntry } from './event.ts';
import { placeOf } from './log-place.ts';
import { carryOutcome, isOutcome, type CarriedOutcome } from './outcome.ts';
import type { DiskMark } from '../stores/disk-mark.ts';
import { BYTES_PER_BATCH, EVENTS_PER_BATCH } from './source.ts';

/** An entry as Redis answers it. */
export type Entry = [id: Buffer, fields: Buffer[] | null];

/** What one round of reading took from the outboxes of a server. `at` is a stream's position in their list. */
export type Round = {
  /** The server that delivered the entries. Another one (restarted, failed over) may use the same ids for other entries. */
  runId: string;
  events: CarriedEvent[];
  outcomes: CarriedOutcome[];
  /** The entries that are done once these are delivered, with how many events each holds beyond one, and what in it is no event. */
  entries: { at: number; id: string; more: number; unreadable: Unreadable[] }[];
  /** Of their JSON. */
  bytes: number;
};

/** What is no event in an entry: the whole entry, or a line of it. */
export type Unreadable = { fields: (Buffer | string)[]; reason: string };

/** So long one answer of a server may take. */
export const ANSWER_WITHIN_MS = 5_000;
const MOST_WAITING = 5_000;
const MOST_WAITING_BYTES = 2_000_000;
const ON_DISK_WITHIN_MS = 10_000;

/** Whether a round has as much as a batch may. */
export function isFull({ events, outcomes, entries, bytes }: Round): boolean {
  return Math.max(events.length + outcomes.length, entries.length) >= EVENTS_PER_BATCH || bytes >= BYTES_PER_BATCH;
}

/**
 * Lets entries wait until they are on the disk of their server. If it lost them after they were booked, it would have lost
 * their debits too: the books would then hold the event of the lost call beside the event of its repetition.
 */
export function waitForDisk(disk: DiskMark, clock: Clock, shards: readonly number[]) {
  let waiting: { at: number; entry: Entry; readAt: number }[] = [];
  let waitingBytes = 0;

  return {
    /** Adds entries of one stream to a round; those that are not on the disk wait. */
    add(round: Round, at: number, entries: readonly Entry[]): void {
      const readAt = clock.monotonic();
      for (const entry of entries) addOrWait(round, { at, entry, readAt });
    },
    /** Adds the waiting entries to a round that are on the disk by now. */
    async release(round: Round): Promise<void> {
      await disk.look();
      const before = waiting;
      clear();
      for (const one of before) addOrWait(round, one);
      if (waiting[0] && clock.monotonic() - waiting[0].readAt > ON_DISK_WITHIN_MS)
        throw new Error('redis does not bring its append-only file to the disk');
    },
    isEmpty: () => waiting.length === 0,
    isFull: () => waiting.length >= MOST_WAITING || waitingBytes >= MOST_WAITING_BYTES,
    clear,
  };

  function clear(): void {
    waiting = [];
    waitingBytes = 0;
  }

  function addOrWait(round: Round, one: (typeof waiting)[number]): void {
    const { at, entry, readAt } = one;
    const [id, fields] = entry;
    if (disk.has(Number.parseInt(id.toString('latin1'), 10), readAt))
      return addEntry(round, { at, shard: shards[at]! }, entry);
    waiting.push(one);
    waitingBytes += fields?.at(-1)?.length ?? 0;
  }
}

function addEntry(round: Round, { at, shard }: { at: number; shard: number }, [entryId, fields]: Entry): void {
  const id = entryId.toString('latin1');
  const place = placeOf(shard, id);
  let lines: string[] = [];
  const unreadable: Unreadable[] = [];
  try {
    // An entry without fields was deleted by hand while it was pending. It only has to be acknowledged.
    if (fields) lines = valueOfEntry(fields).toString('latin1').split('\n');
  } catch (error) {
    unreadable.push({ fields: fields ?? [], reason: reasonOf(error) });
  }
  for (const line of lines) {
    round.bytes += line.length;
    try {
      if (isOutcome(line)) round.outcomes.push(carryOutcome(line));
      else round.events.push(Object.assign(carryEvent(Buffer.from(line, 'latin1')), { place }));
    } catch (error) {
      unreadable.push({ fields: [EVENT_FIELD, Buffer.from(line, 'latin1')], reason: reasonOf(error) });
    }
  }
  round.entries.push({ at, id, more: Math.max(0, lines.length - 1), unreadable });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof UnreadableEvent)) throw error;
  return error.message;
}
