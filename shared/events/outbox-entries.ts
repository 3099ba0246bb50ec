import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import { chunks } from '../values/chunks.ts';
import { carryEvent, type CarriedEvent } from './carried-event.ts';
import { EVENT_FIELD, UnreadableEvent, valueOfEntry } from './event.ts';
import { placeOf } from './log-place.ts';
import { carryOutcome, isOutcome, type CarriedOutcome } from './outcome.ts';
import type { DiskMark } from '../stores/disk-mark.ts';
import { BYTES_PER_BATCH, EVENTS_PER_BATCH } from './pump.ts';

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
const IDS_PER_CALL = 500;
// Lua passes 8,000 arguments at most. No entry of ours has more than one field; its lines are set aside as one each.
const MOST_FIELDS_KEPT = 1_000;

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

/**
 * Acknowledges and deletes a round's entries, and sets aside what is no event in them. Entries that another server
 * delivered are left alone; whatever that server still holds for us is read and written again. Scripts do it, not
 * transactions: Redis takes no MULTI when it has reached its memory limit, and only this gives it memory again.
 */
export async function acknowledgeRound(
  { node, shards, streams }: { node: RedisNode; shards: number[]; streams: string[] },
  { runId, entries }: Round,
  { metrics, log }: { metrics: Metrics; log: Logger },
): Promise<void> {
  if (node.runId() !== runId) return;
  const whole = entries.filter(({ unreadable }) => unreadable.length === 0);
  const ofStreams = [...Map.groupBy(whole, ({ at }) => at)];
  await Promise.all(
    ofStreams.flatMap(([at, all]) =>
      chunks(all, IDS_PER_CALL).map((some) => {
        const more = some.some((entry) => entry.more > 0) ? some.map((entry) => entry.more) : [];
        const args = [OUTBOX_GROUP, some.length, ...some.map(({ id }) => id), ...more];
        return node.script('acknowledge', [streams[at]!], args, ANSWER_WITHIN_MS);
      }),
    ),
  );
  for (const entry of entries) {
    const { at, id, more, unreadable } = entry;
    if (unreadable.length === 0) continue;
    const kept = unreadable.flatMap(({ fields, reason }) => {
      const some = fields.slice(0, MOST_FIELDS_KEPT);
      return [reason, some.length, ...some];
    });
    const keys = [streams[at]!, keyspace.dead(shards[at]!)];
    await node.script('reject', keys, [OUTBOX_GROUP, id, more, ...kept], ANSWER_WITHIN_MS);
    metrics.unreadableEvents.inc(unreadable.length);
    for (const { reason } of unreadable)
      log.error({ stream: streams[at], entry: id, reason }, 'what is no event in an outbox entry was set aside');
    // Should the next one fail, all are acknowledged once more, and this one is not set aside again.
    entry.unreadable = [];
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
