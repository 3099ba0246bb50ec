import type { Clock } from '../../shared/runtime/clock.ts';
import type { Kafka } from '../../shared/events/kafka.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Source } from '../../shared/events/source.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { decodePart, gatherParts, type Part, type UnreadableRecord } from './waiting-parts.ts';

type KafkaReaderOptions = {
  kafka: Kafka;
  metrics: Metrics;
  log: Logger;
  clock: Clock;
  /** Called when reading failed in a way that trying again would not change. */
  ended(error: Error): void;
};

/** `assigned` gives the partitions that Kafka has assigned to this consumer. */
export type KafkaReader = Source & Running & { assigned(): ReadonlySet<number> };

const WAIT_MS = 1_000;
const LINGER_MS = 800;
// Below the 1 MiB that a broker accepts. The beginning of a longer value is enough to see what it is.
const LONGEST_DEAD_VALUE = 900_000;

/**
 * Reads the usage topic. It holds at most a batch of events until the batch before is written, and meanwhile the
 * consumer sends Kafka heartbeats. It delivers every event that it took, in order, even after Kafka has assigned the
 * partition to another consumer. That consumer then delivers the event too, and it alone commits the offset.
 */
export function makeKafkaReader({ kafka, metrics, log, clock, ended }: KafkaReaderOptions): KafkaReader {
  const waiting = gatherParts(clock);
  const consuming = kafka.consume({
    async take(fetched, keepWaiting) {
      while (waiting.isFull()) {
        if (!(await keepWaiting())) return false;
        await waiting.waitForChange();
      }
      waiting.add(decodePart(fetched));
      return true;
    },
    ended,
  });

  return {
    assigned: consuming.assigned,
    stop: consuming.stop,
    async read(signal) {
      await waiting.waitUntil(() => !waiting.isEmpty(), WAIT_MS, signal);
      await waiting.waitUntil(waiting.isFull, LINGER_MS, signal);
      if (waiting.isEmpty()) return undefined;
      const parts = waiting.takeBatch();
      const events = parts.flatMap((part) => part.events);
      const outcomes = parts.flatMap((part) => part.outcomes);
      return { events, outcomes, acknowledge: acknowledgement(parts) };
    },
  };

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
