import type { Clock } from '../../shared/runtime/clock.ts';
import { carryEvent, type CarriedEvent } from '../../shared/events/carried-event.ts';
import { withTraceOf } from '../../shared/events/carried-trace.ts';
import { UnreadableEvent } from '../../shared/events/event.ts';
import type { Fetched, Incoming } from '../../shared/events/kafka-consumer.ts';
import { carryOutcome, isOutcome, type CarriedOutcome } from '../../shared/events/outcome.ts';
import { BYTES_PER_BATCH, EVENTS_PER_BATCH } from '../../shared/events/source.ts';

export type UnreadableRecord = { partition: number; record: Incoming; reason: string };

/** Records of one partition that were fetched together, decoded. */
export type Part = {
  partition: number;
  lastOffset: string;
  events: CarriedEvent[];
  outcomes: CarriedOutcome[];
  /** Of their JSON. */
  bytes: number;
  unreadable: UnreadableRecord[];
};

const LOOK_EVERY_MS = 500;

/** Decodes fetched records. Those that are not events are kept apart, with the reason. */
export function decodePart({ partition, records, lastOffset }: Fetched): Part {
  const part: Part = { partition, lastOffset, events: [], outcomes: [], bytes: 0, unreadable: [] };
  for (const record of records) {
    try {
      const { value, headers } = record;
      if (value && isOutcome(value)) part.outcomes.push(carryOutcome(value.toString('latin1')));
      else part.events.push(withTraceOf(headers, carryEvent(value)));
      part.bytes += record.value?.length ?? 0;
    } catch (error) {
      if (!(error instanceof UnreadableEvent)) throw error;
      part.unreadable.push({ partition, record, reason: error.message });
    }
  }
  return part;
}

/** Parts that were fetched and are in no batch yet: about a batch of events at most. */
export function gatherParts(clock: Clock) {
  const parts: Part[] = [];
  let size = 0;
  let bytes = 0;
  const waiting = new Set<() => void>();

  return {
    isEmpty: () => parts.length === 0,
    isFull: () => size >= EVENTS_PER_BATCH || bytes >= BYTES_PER_BATCH,
    add(part: Part): void {
      parts.push(part);
      size += sizeOf(part);
      bytes += part.bytes;
      signalChange();
    },
    /** Takes whole parts until they make a batch or none is left. */
    takeBatch(): Part[] {
      const taken: Part[] = [];
      const left = { events: EVENTS_PER_BATCH, bytes: BYTES_PER_BATCH };
      while (parts.length > 0 && left.events > 0 && left.bytes > 0) {
        const part = parts.shift()!;
        taken.push(part);
        left.events -= sizeOf(part);
        left.bytes -= part.bytes;
        size -= sizeOf(part);
        bytes -= part.bytes;
      }
      signalChange();
      return taken;
    },
    /** Waits for the next change, half a second at most. */
    waitForChange: () => nextChange(LOOK_EVERY_MS),
    /** Waits until a condition holds, for so long at most. */
    async waitUntil(holds: () => boolean, withinMs: number, signal: AbortSignal): Promise<void> {
      const until = clock.monotonic() + withinMs;
      while (!holds() && !signal.aborted) {
        const restMs = until - clock.monotonic();
        if (restMs <= 0) return;
        await nextChange(restMs, signal);
      }
    },
  };

  function signalChange(): void {
    for (const wake of waiting) wake();
  }

  // Not a race with one promise of the next change: each wait would stay with that promise, which may have to wait for days.
  async function nextChange(withinMs: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => resolve();
    const cancel = clock.after(withinMs, wake);
    waiting.add(wake);
    signal?.addEventListener('abort', wake);
    await promise;
    cancel();
    waiting.delete(wake);
    signal?.removeEventListener('abort', wake);
  }
}

function sizeOf({ events, outcomes }: Part): number {
  return events.length + outcomes.length;
}
