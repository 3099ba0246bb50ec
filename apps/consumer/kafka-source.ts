import { setTimeout as sleep } from 'node:timers/promises';
import { decodeEvent, UnreadableEvent, type UsageEvent } from '../../shared/events/event.ts';
import type { Kafka } from '../../shared/events/kafka.ts';
import type { Fetched, Incoming } from '../../shared/events/kafka-consumer.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Source } from '../../shared/events/outbox-reader.ts';
import type { Running } from '../../shared/runtime/run.ts';

type KafkaSourceOptions = {
  kafka: Kafka;
  metrics: Metrics;
  log: Logger;
  /** Reading came to an end that trying again would not change. */
  ended(error: Error): void;
};

export type KafkaSource = Source & Running & { assigned(): ReadonlySet<number> };

type Unreadable = { partition: number; record: Incoming; reason: string };
type Part = { partition: number; lastOffset: string; events: UsageEvent[]; unreadable: Unreadable[] };

const EVENTS_PER_BATCH = 10_000;
const WAIT_MS = 1_000;
const LINGER_MS = 800;
const LOOK_EVERY_MS = 500;
// Less than the 1 MiB that a broker takes: who finds it here has seen enough to know what it is.
const LONGEST_DEAD_VALUE = 900_000;

/**
 * Reads the usage topic. What was read is held until the batch before it is written, at most a batch of it, and until
 * then the consumer goes on telling Kafka that it lives. Events that were taken here are written, in order, also when
 * their partition has gone to another consumer meanwhile, who then writes them too; only its offset is that one's then.
 */
export function kafkaSource({ kafka, metrics, log, ended }: KafkaSourceOptions): KafkaSource {
  const parts: Part[] = [];
  let events = 0;
  let change = Promise.withResolvers<void>();
  const consuming = kafka.consume({ take, ended });

  return {
    assigned: consuming.assigned,
    stop: consuming.stop,
    async read(signal) {
      await changed(WAIT_MS, signal, () => parts.length > 0);
      await changed(LINGER_MS, signal, () => events >= EVENTS_PER_BATCH);
      if (parts.length === 0) return undefined;
      const taken: Part[] = [];
      let count = 0;
      while (parts.length > 0 && count < EVENTS_PER_BATCH) {
        taken.push(parts.shift()!);
        count += taken.at(-1)!.events.length;
      }
      events -= count;
      tellChange();
      return { events: taken.flatMap((part) => part.events), acknowledge: acknowledgement(taken) };
    },
  };

  async function take({ partition, records, lastOffset }: Fetched, on: () => Promise<boolean>): Promise<boolean> {
    while (events >= EVENTS_PER_BATCH) {
      if (!(await on())) return false;
      await Promise.race([change.promise, sleep(LOOK_EVERY_MS)]);
    }
    const part: Part = { partition, lastOffset, events: [], unreadable: [] };
    for (const record of records) {
      try {
        part.events.push(decodeEvent(record.value));
      } catch (error) {
        if (!(error instanceof UnreadableEvent)) throw error;
        part.unreadable.push({ partition, record, reason: error.message });
      }
    }
    parts.push(part);
    events += part.events.length;
    tellChange();
    return true;
  }

  /** Waits until it is so, or until so long has passed. */
  async function changed(withinMs: number, signal: AbortSignal, isSo: () => boolean): Promise<void> {
    const until = performance.now() + withinMs;
    while (!isSo() && !signal.aborted) {
      const restMs = until - performance.now();
      if (restMs <= 0) return;
      await Promise.race([change.promise, sleep(restMs, undefined, { signal }).catch(() => {})]);
    }
  }

  function tellChange(): void {
    change.resolve();
    change = Promise.withResolvers();
  }

  /**
   * 1. What is no event goes to the topic for such. Dying here: it goes there once more.
   * 2. Commit. Only now does whoever reads the partition next begin after it.
   */
  function acknowledgement(taken: Part[]): () => Promise<void> {
    const lastOffsets = new Map(taken.map(({ partition, lastOffset }) => [partition, lastOffset]));
    let unreadable = taken.flatMap((part) => part.unreadable);
    return async function acknowledge() {
      if (unreadable.length > 0) await setAside(unreadable);
      unreadable = [];
      await consuming.commit(lastOffsets);
    };
  }

  async function setAside(unreadable: Unreadable[]): Promise<void> {
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
      log.error({ partition, offset: record.offset, reason }, 'a record of Kafka is no event; it was set aside');
    }
  }
}
