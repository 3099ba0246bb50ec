import { setTimeout as sleep } from 'node:timers/promises';
import { decodeEvent, UnreadableEvent, type UsageEvent } from '../../shared/events/event.ts';
import type { Fetched, Incoming } from '../../shared/events/kafka-consumer.ts';

export type UnreadableRecord = { partition: number; record: Incoming; reason: string };

/** Records of one partition that were fetched together, decoded. */
export type Part = { partition: number; lastOffset: string; events: UsageEvent[]; unreadable: UnreadableRecord[] };

const EVENTS_PER_BATCH = 10_000;
const LOOK_EVERY_MS = 500;

/** Decodes fetched records. Those that are not events are kept apart, with the reason. */
export function decodePart({ partition, records, lastOffset }: Fetched): Part {
  const part: Part = { partition, lastOffset, events: [], unreadable: [] };
  for (const record of records) {
    try {
      part.events.push(decodeEvent(record.value));
    } catch (error) {
      if (!(error instanceof UnreadableEvent)) throw error;
      part.unreadable.push({ partition, record, reason: error.message });
    }
  }
  return part;
}

/** Parts that were fetched and are in no batch yet: about a batch of events at most. */
export function holdParts() {
  const parts: Part[] = [];
  let events = 0;
  let change = Promise.withResolvers<void>();

  return {
    isEmpty: () => parts.length === 0,
    isFull: () => events >= EVENTS_PER_BATCH,
    add(part: Part): void {
      parts.push(part);
      events += part.events.length;
      signalChange();
    },
    /** Takes whole parts until they make a batch or none is left. */
    takeBatch(): Part[] {
      const taken: Part[] = [];
      let count = 0;
      while (parts.length > 0 && count < EVENTS_PER_BATCH) {
        const part = parts.shift()!;
        taken.push(part);
        count += part.events.length;
      }
      events -= count;
      signalChange();
      return taken;
    },
    /** Waits for the next change, half a second at most. */
    async waitForChange(): Promise<void> {
      await Promise.race([change.promise, sleep(LOOK_EVERY_MS)]);
    },
    /** Waits until a condition holds, for so long at most. */
    async waitUntil(holds: () => boolean, withinMs: number, signal: AbortSignal): Promise<void> {
      const until = performance.now() + withinMs;
      while (!holds() && !signal.aborted) {
        const restMs = until - performance.now();
        if (restMs <= 0) return;
        await Promise.race([change.promise, sleep(restMs, undefined, { signal }).catch(() => {})]);
      }
    },
  };

  function signalChange(): void {
    change.resolve();
    change = Promise.withResolvers();
  }
}
