import type { Admin, Producer } from 'kafkajs';
import { ConfigError } from '../runtime/config.ts';
import type { KafkaConfig } from '../runtime/programs.ts';
import { makeClient, makePartitioner, makeQuietClient } from './kafka-client.ts';
import { consumeTopic, type Consuming, type Handlers } from './kafka-consumer.ts';
import type { Logger } from '../runtime/log.ts';
import { withTimeout } from '../runtime/timeout.ts';

export type Outgoing = { key: string | Buffer | null; value: string | Buffer; headers?: Record<string, string> };

/** How far a partition's consumer group is: records up to `committed` are done, those up to `end` are there. */
export type Progress = { partition: number; committed: number; end: number };

/** Kafka as we use it. Nothing outside of the files named kafka knows which client is behind it. */
export type Kafka = {
  /** Usage events, and records among them that are none. */
  topics: { usage: string; dead: string };
  /** Makes the topics that are missing; one that is there stays as it is. */
  ensureTopics(): Promise<void>;
  /** Settles when every replica that keeps up has the records. Rejected: some may be there, and can be sent again. */
  produce(topic: string, records: Outgoing[]): Promise<void>;
  /** Reads the usage topic as a member of the group that writes the books. */
  consume(handlers: Handlers): Consuming;
  /** How far that group is, by partition. */
  progress(): Promise<Progress[]>;
  ready(): Promise<boolean>;
  close(): Promise<void>;
};

// A partition's part of a request must fit into a broker's max.message.bytes, by default 1 MiB, whatever the keys are.
const BYTES_PER_REQUEST = 700_000;
const ANSWER_WITHIN_MS = 15_000;
const DISCONNECT_WITHIN_MS = 3_000;
const HOUR_MS = 3_600_000;

/** Connects to Kafka, lazily, and again when it was away. */
export function connectKafka(config: KafkaConfig, program: string, log: Logger): Kafka {
  if (config.KAFKA_BROKERS.length === 0) throw new ConfigError(['KAFKA_BROKERS must be set with BUS=kafka']);
  const client = makeClient(config, program, log);
  const prefix = config.KAFKA_TOPIC_PREFIX;
  const topics = { usage: `${prefix}.usage.v1`, dead: `${prefix}.dead.v1` };
  const group = `${prefix}.books`;
  const producer = reconnecting<Producer>(() =>
    // Not idempotent: with this client that can lose a batch when an answer is lost. Repeating is harmless here.
    client.producer({ idempotent: false, createPartitioner: makePartitioner, allowAutoTopicCreation: false }),
  );
  const admin = reconnecting<Admin>(() => client.admin());
  const ensure = () => admin.use((connected) => ensureTopics(connected, topics, config));

  return {
    topics,
    ensureTopics: ensure,
    async produce(topic, records) {
      await producer.use((connected) =>
        Promise.all(requests(records).map((messages) => connected.send({ topic, messages, acks: -1 }))),
      );
    },
    consume: (handlers) => consumeTopic({ client, topic: topics.usage, group, prepare: ensure, log, ...handlers }),
    progress: () => admin.use((connected) => progress(connected, topics.usage, group)),
    ready: () => admin.use(answers),
    async close() {
      await Promise.all([producer.close(), admin.close()]);
    },
  };
}

/** Whether a broker of this machine answers as one that serves: for who waits for its start. */
export async function kafkaAnswers(brokers: string[]): Promise<boolean> {
  const admin = reconnecting<Admin>(() => makeQuietClient(brokers).admin());
  return admin
    .use(answers)
    .catch(() => false)
    .finally(() => admin.close());
}

async function answers(admin: Admin): Promise<boolean> {
  const { brokers, controller } = await admin.describeCluster();
  return brokers.length > 0 && controller !== null;
}

async function ensureTopics(admin: Admin, topics: Kafka['topics'], config: KafkaConfig): Promise<void> {
  const present = await admin.listTopics();
  const replicas = config.KAFKA_TOPIC_REPLICATION;
  const durable = {
    // Else retention goes by the time of an event, which may be late.
    'message.timestamp.type': 'LogAppendTime',
    'min.insync.replicas': String(Math.max(1, replicas - 1)),
    // Where no other broker has it, it is on the disk before it is acknowledged.
    ...(replicas === 1 && { 'flush.messages': '1' }),
  };
  const retentionMs = String(config.KAFKA_TOPIC_RETENTION_HOURS * HOUR_MS);
  const wanted = [
    { topic: topics.usage, partitions: config.KAFKA_TOPIC_PARTITIONS, settings: { 'retention.ms': retentionMs } },
    // Kept until somebody has looked.
    { topic: topics.dead, partitions: 1, settings: { 'retention.ms': '-1' } },
  ];
  const missing = wanted.filter(({ topic }) => !present.includes(topic));
  if (missing.length === 0) return;
  // False when another program was first with all of them.
  await admin.createTopics({
    topics: missing.map(({ topic, partitions, settings }) => ({
      topic,
      numPartitions: partitions,
      replicationFactor: replicas,
      configEntries: Object.entries({ ...durable, ...settings }).map(([name, value]) => ({ name, value })),
    })),
  });
}

async function progress(admin: Admin, topic: string, group: string): Promise<Progress[]> {
  if (!(await admin.listTopics()).includes(topic)) return [];
  const [ends, [committed]] = await Promise.all([
    admin.fetchTopicOffsets(topic),
    admin.fetchOffsets({ groupId: group, topics: [topic] }),
  ]);
  const done = new Map(committed?.partitions.map(({ partition, offset }) => [partition, Number(offset)]));
  return ends.map(({ partition, high, low }) => {
    // -1: nothing was committed yet; below `low`: what was not read in time is gone.
    return { partition, committed: Math.max(done.get(partition) ?? -1, Number(low)), end: Number(high) };
  });
}

/** Cuts records into parts that fit into a request each. */
function requests(records: Outgoing[]): Outgoing[][] {
  const parts: Outgoing[][] = [];
  let size = Infinity;
  for (const record of records) {
    if (size > BYTES_PER_REQUEST) {
      parts.push([]);
      size = 0;
    }
    parts.at(-1)!.push(record);
    // In characters: what is not ASCII is up to three times that, for which there is room.
    size += (record.key?.length ?? 0) + record.value.length + 32;
  }
  return parts;
}

/** A connection that is made when it is needed, and made anew after a failure: what one leaves behind is not trusted. */
function reconnecting<T extends { connect(): Promise<void>; disconnect(): Promise<void> }>(make: () => T) {
  let current: Promise<T> | undefined;
  return {
    async use<Result>(work: (connected: T) => Promise<Result>): Promise<Result> {
      current ??= open();
      const mine = current;
      try {
        return await withTimeout(ANSWER_WITHIN_MS, mine.then(work));
      } catch (error) {
        if (current === mine) current = undefined;
        mine.then(drop, () => {});
        throw error;
      }
    },
    async close(): Promise<void> {
      // One that is still being made is left to itself.
      if (current) await withTimeout(DISCONNECT_WITHIN_MS, current.then(drop)).catch(() => {});
      current = undefined;
    },
  };

  async function open(): Promise<T> {
    const fresh = make();
    await fresh.connect().catch(async (error: unknown) => {
      await drop(fresh);
      throw error;
    });
    return fresh;
  }

  async function drop(one: T): Promise<void> {
    await withTimeout(DISCONNECT_WITHIN_MS, one.disconnect()).catch(() => {});
  }
}
