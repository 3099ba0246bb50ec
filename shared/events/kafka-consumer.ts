import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer, EachBatchPayload, Kafka as Client, KafkaMessage } from 'kafkajs';
import type { Logger } from '../runtime/log.ts';
import { withTimeout } from '../runtime/timeout.ts';

export type Incoming = Pick<KafkaMessage, 'key' | 'value' | 'offset'>;

/** Records of one partition that were read together. */
export type Fetched = { partition: number; records: Incoming[]; lastOffset: string };

export type Handlers = {
  /**
   * Takes what was read, in order; nothing more is read until it has returned. While it waits it asks every second or so
   * whether to wait `on`, by which the consumer is known to live, and lets a failure of that pass. Gives whether it took.
   */
  take(fetched: Fetched, on: () => Promise<boolean>): Promise<boolean>;
  /** The consumer came to an end that trying again would not change. */
  ended(error: Error): void;
};

export type Consuming = {
  /** The partitions that are this consumer's now. */
  assigned(): ReadonlySet<number>;
  /** Notes that all records up to these offsets are done; for partitions that are another's by now it does nothing. */
  commit(lastOffsets: ReadonlyMap<number, string>): Promise<void>;
  stop(): Promise<void>;
};

type ConsumeTopicOptions = Handlers & {
  client: Client;
  topic: string;
  group: string;
  /** Done before each beginning: a topic that is not there can't be read. */
  prepare(): Promise<void>;
  log: Logger;
};

const LONGEST_PAUSE_MS = 2_000;
const DISCONNECT_WITHIN_MS = 3_000;

/**
 * Keeps a consumer of a topic running. What is taken is taken as read at once, and stays this process's to do, also
 * when its partition becomes another's: it is done twice then. Only `commit` says what is done.
 */
export function consumeTopic({ client, topic, group, prepare, log, take, ended }: ConsumeTopicOptions): Consuming {
  const stopping = new AbortController();
  const { signal } = stopping;
  let current: Consumer | undefined;
  let partitions: ReadonlySet<number> = new Set();
  const done = keep();

  return {
    assigned: () => partitions,
    async commit(lastOffsets) {
      const ours = [...lastOffsets].filter(([partition]) => partitions.has(partition));
      if (ours.length === 0) return;
      if (!current) throw new Error('the consumer is not connected');
      await current.commitOffsets(
        ours.map(([partition, offset]) => ({ topic, partition, offset: String(BigInt(offset) + 1n) })),
      );
    },
    async stop() {
      stopping.abort();
      await done;
    },
  };

  // A crash of kafkajs's consumer ends it, some for good: each is followed by a new consumer, unless that were futile.
  async function keep(): Promise<void> {
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
      try {
        const crash = await run(consumer, () => (attempt = 0));
        if (crash && !mayPass(crash)) return ended(crash);
        if (crash) log.warn({ error: crash }, 'reading Kafka was cut short; it is begun again');
      } catch (error) {
        log.warn({ error, attempt }, 'Kafka can not be read; it is tried again');
      } finally {
        current = undefined;
        partitions = new Set();
        await withTimeout(DISCONNECT_WITHIN_MS, consumer.disconnect()).catch(() => {});
      }
      const pauseMs = Math.min(100 * 2 ** Math.min(attempt, 10), LONGEST_PAUSE_MS);
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }

  /** Consumes until it is stopped or crashes, and gives the crash. */
  async function run(consumer: Consumer, joined: () => void): Promise<Error | undefined> {
    const { promise: ending, resolve: end } = Promise.withResolvers<Error | undefined>();
    const stop = () => end(undefined);
    signal.addEventListener('abort', stop, { once: true });
    consumer.on(consumer.events.CRASH, ({ payload }) => end(payload.error));
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      if (consumer !== current) return;
      joined();
      partitions = new Set(payload.memberAssignment[topic]);
      log.info({ partitions: [...partitions].toSorted((a, b) => a - b) }, 'partitions of Kafka were assigned');
    });
    // A broker that does not answer must not keep this from stopping.
    await Promise.race([begin(consumer), ending]);
    try {
      return await ending;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  async function begin(consumer: Consumer): Promise<void> {
    await prepare();
    if (signal.aborted) return;
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    if (signal.aborted) return;
    current = consumer;
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch });
  }

  async function eachBatch({ batch, heartbeat, resolveOffset }: EachBatchPayload): Promise<void> {
    const { partition, messages } = batch;
    const lastOffset = batch.lastOffset();
    const taken = await take({ partition, records: messages, lastOffset }, async () => {
      if (!signal.aborted) await heartbeat();
      return !signal.aborted;
    });
    // Where to read on, for this process alone: nothing is committed by it.
    if (taken && partitions.has(partition)) resolveOffset(lastOffset);
  }
}

// As kafkajs itself decides whether to start a crashed consumer again, but for a coordinator that is not found: there is
// none while brokers start.
function mayPass(error: Error): boolean {
  if (['KafkaJSNumberOfRetriesExceeded', 'KafkaJSGroupCoordinatorNotFound'].includes(error.name)) return true;
  if (error.cause instanceof Error) return mayPass(error.cause);
  return (error as { retriable?: boolean }).retriable === true;
}
