import type { Consumer, Kafka as Client, KafkaMessage } from 'kafkajs';
import { systemClock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { withTimeout } from '../runtime/timeout.ts';

export type Incoming = Pick<KafkaMessage, 'key' | 'value' | 'offset' | 'headers'>;

/** Records of one partition that were read together. */
export type Fetched = { partition: number; records: Incoming[]; lastOffset: string };

/**
 * Takes records in order; nothing more is read until it returns. While it waits, it calls `keepWaiting` about once a
 * second: that sends Kafka a heartbeat and tells whether to go on. It lets a failure of that call pass through, and
 * gives whether it took the records.
 */
export type Take = (fetched: Fetched, keepWaiting: () => Promise<boolean>) => Promise<boolean>;

type ConsumeTopicOptions = {
  client: Client;
  take: Take;
  topic: string;
  group: string;
  /** Called before each connection: a topic that does not exist can't be read. */
  prepare(): Promise<void>;
  log: Logger;
};

const LONGEST_PAUSE_MS = 2_000;
const DISCONNECT_WITHIN_MS = 3_000;

/**
 * Keeps a consumer of a topic running. Records count as read once they are taken. This process then delivers them even
 * if Kafka assigns their partition to another consumer, which delivers them too. Only `commit` says what is done.
 */
export function consumeTopic({ client, topic, group, prepare, take, log }: ConsumeTopicOptions) {
  const stopping = new AbortController();
  const { signal } = stopping;
  // This process's place in the consumer group: none while it is not connected.
  let connected: Consumer | undefined;
  let partitions: ReadonlySet<number> = new Set();
  const done = keepConsuming();

  return {
    /** The partitions that Kafka has assigned to this consumer. */
    assigned: () => partitions,
    /** Commits that all records up to these offsets are done. It leaves out partitions that are another consumer's now. */
    async commit(lastOffsets: ReadonlyMap<number, string>): Promise<void> {
      const ours = [...lastOffsets].filter(([partition]) => partitions.has(partition));
      if (ours.length === 0) return;
      if (!connected) throw new Error('the consumer is not connected');
      await connected.commitOffsets(
        ours.map(([partition, offset]) => ({ topic, partition, offset: String(BigInt(offset) + 1n) })),
      );
    },
    async stop(): Promise<void> {
      stopping.abort();
      await done;
    },
  };

  // A crash ends a kafkajs consumer. A new consumer follows it, whatever it was: kafkajs itself goes on after some errors alone.
  async function keepConsuming(): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      const consumer = client.consumer({
        groupId: group,
        sessionTimeout: 6_000,
        heartbeatInterval: 1_500,
        rebalanceTimeout: 20_000,
        maxWaitTimeInMs: 500,
        maxBytesPerPartition: 1_048_576,
        maxBytes: 4 * 1_048_576,
        allowAutoTopicCreation: false,
        retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 5, restartOnFailure: async () => false },
      });
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        if (consumer !== connected) return;
        attempt = 0;
        partitions = new Set(payload.memberAssignment[topic]);
        log.info({ partitions: [...partitions].toSorted((a, b) => a - b) }, 'partitions of Kafka were assigned');
      });
      try {
        await consumeUntilCrash(consumer);
      } catch (error) {
        log.warn({ error, attempt }, 'Kafka can not be read; it is tried again');
      } finally {
        connected = undefined;
        partitions = new Set();
        await withTimeout(systemClock, DISCONNECT_WITHIN_MS, consumer.disconnect()).catch(() => {});
      }
      const pauseMs = Math.min(100 * 2 ** Math.min(attempt, 10), LONGEST_PAUSE_MS);
      await systemClock.sleep(pauseMs, signal).catch(() => {});
    }
  }

  /** Consumes until the signal, or throws the error of a crash. */
  async function consumeUntilCrash(consumer: Consumer): Promise<void> {
    const { promise: ending, resolve: stop, reject: crash } = Promise.withResolvers<void>();
    const onAbort = () => stop();
    signal.addEventListener('abort', onAbort, { once: true });
    consumer.on(consumer.events.CRASH, ({ payload }) => crash(payload.error));
    try {
      // Stopping must not wait for a broker that does not answer.
      await Promise.race([connect(consumer), ending]);
      await ending;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  async function connect(consumer: Consumer): Promise<void> {
    await prepare();
    if (signal.aborted) return;
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    if (signal.aborted) return;
    connected = consumer;
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      async eachBatch({ batch, heartbeat, resolveOffset }) {
        const { partition, messages } = batch;
        const lastOffset = batch.lastOffset();
        const taken = await take({ partition, records: messages, lastOffset }, async () => {
          if (!signal.aborted) await heartbeat();
          return !signal.aborted;
        });
        // Tells kafkajs where to read on in this process. It commits nothing.
        if (taken && partitions.has(partition)) resolveOffset(lastOffset);
      },
    });
  }
}
