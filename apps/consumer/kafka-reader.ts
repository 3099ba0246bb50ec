import { carryEvent, readHeaders, type CarriedEvent } from '../../shared/events/carried-event.ts';
import { UnreadableEvent } from '../../shared/events/event.ts';
import type { Kafka } from '../../shared/events/kafka.ts';
import type { Fetched, Incoming } from '../../shared/events/kafka-consumer.ts';
import { carryOutcome, isOutcome, type CarriedOutcome } from '../../shared/events/outcome.ts';
import { BYTES_PER_BATCH, EVENTS_PER_BATCH, type Source } from '../../shared/events/pump.ts';
import type { Running, Runtime } from '../../shared/runtime/run.ts';

/** `assigned` gives the partitions that Kafka has assigned to this consumer. */
type KafkaReader = Source & Running & { assigned(): ReadonlySet<number> };

type UnreadableRecord = { partition: number; record: Incoming; reason: string };

type Part = {
  partition: number;
  lastOffset: string;
  events: CarriedEvent[];
  outcomes: CarriedOutcome[];
  /** Of their JSON. */
  bytes: number;
  unreadable: UnreadableRecord[];
};

const WAIT_MS = 1_000;
const LINGER_MS = 800;
const LOOK_EVERY_MS = 100;
// Below the 1 MiB that a broker accepts. The beginning of a longer value is enough to see what it is.
const LONGEST_DEAD_VALUE = 900_000;

/**
 * Reads the usage topic. It holds at most a batch of events until the batch before is written, and meanwhile the
 * consumer sends Kafka heartbeats. It delivers every event that it took, in order, even after Kafka has assigned the
 * partition to another consumer. That consumer then delivers the event too, and it alone commits the offset.
 */
export function makeKafkaReader({ kafka, metrics, log, clock }: Runtime & { kafka: Kafka }): KafkaReader {
  // Fetched, and in no batch yet.
  const waiting: Part[] = [];
  const consuming = kafka.consume(async (fetched, keepWaiting) => {
    while (isBatch(waiting)) {
      if (!(await keepWaiting())) return false;
      await clock.sleep(LOOK_EVERY_MS);
    }
    waiting.push(decodePart(fetched));
    return true;
  });

  return {
    assigned: consuming.assigned,
    stop: consuming.stop,
    async read(signal) {
      await waitUntil(() => waiting.length > 0, WAIT_MS, signal);
      await waitUntil(() => isBatch(waiting), LINGER_MS, signal);
      const parts: Part[] = [];
      while (waiting.length > 0 && !isBatch(parts)) parts.push(waiting.shift()!);
      if (parts.length === 0) return undefined;
      const events = parts.flatMap((part) => part.events);
      const outcomes = parts.flatMap((part) => part.outcomes);
      return { events, outcomes, acknowledge: acknowledgement(parts) };
    },
  };

  async function waitUntil(holds: () => boolean, withinMs: number, signal: AbortSignal): Promise<void> {
    const until = clock.monotonic() + withinMs;
    while (!holds() && !signal.aborted && clock.monotonic() < until)
      await clock.sleep(LOOK_EVERY_MS, signal).catch(() => {});
  }

  /**
   * 1. Send records that are not events to the topic for them. After a crash here they are sent once more.
   * 2. Commit. Only now does the next reader of a partition begin after these records.
   */
  function acknowledgement(parts: Part[]): () => Promise<void> {
    const lastOffsets = new Map(parts.map(({ partition, lastOffset }) => [partition, lastOffset]));
    let unreadable = parts.flatMap((part) => part.unreadable);
    return async function acknowledge() {
      if (unreadable.length > 0) await setAside(unreadable);
      unreadable = [];
      await consuming.commit(lastOffsets);
    };
  }

  async function setAside(unreadable: UnreadableRecord[]): Promise<void> {
    await kafka.produce(
      kafka.topics.dead,
      unreadable.map(({ partition, record: { key, value, offset }, reason }) => ({
        key,
        value: (value ?? Buffer.alloc(0)).subarray(0, LONGEST_DEAD_VALUE),
        headers: { reason, topic: kafka.topics.usage, partition: String(partition), offset },
      })),
    );
    metrics.unreadableEvents.inc(unreadable.length);
    for (const { partition, record, reason } of unreadable) {
      log.error({ partition, offset: record.offset, reason }, 'a Kafka record is not an event; it was set aside');
    }
  }
}

function isBatch(parts: readonly Part[]): boolean {
  const records = parts.reduce((sum, { events, outcomes }) => sum + events.length + outcomes.length, 0);
  return records >= EVENTS_PER_BATCH || parts.reduce((sum, { bytes }) => sum + bytes, 0) >= BYTES_PER_BATCH;
}

/** Decodes fetched records. Those that are not events are kept apart, with the reason. */
function decodePart({ partition, records, lastOffset }: Fetched): Part {
  const part: Part = { partition, lastOffset, events: [], outcomes: [], bytes: 0, unreadable: [] };
  for (const record of records) {
    const { value, headers = {} } = record;
    part.bytes += value?.length ?? 0;
    try {
      if (value && isOutcome(value)) part.outcomes.push(carryOutcome(value.toString('latin1')));
      else part.events.push(Object.assign(carryEvent(value), readHeaders(headers)));
    } catch (error) {
      if (!(error instanceof UnreadableEvent)) throw error;
      part.unreadable.push({ partition, record, reason: error.message });
    }
  }
  return part;
}
