import { Partitioners, type Admin, type Producer } from 'kafkajs';
import { systemClock } from '../runtime/clock.ts';
import { ConfigError, readConfig } from '../runtime/config.ts';
import { groups, type KafkaConfig, type KafkaLogin } from '../runtime/variables.ts';
import { makeClient } from './kafka-client.ts';
import { consumeTopic, type Take } from './kafka-consumer.ts';
import { makeLogger, type Logger } from '../runtime/log.ts';
import { withTimeout } from '../runtime/timeout.ts';

export type Outgoing = { key: string | Buffer | null; value: string | Buffer; headers?: Record<string, string> };

/** How far the consumer group is in a partition: it has done the records up to `committed` of those up to `end`. */
export type Progress = { partition: number; committed: number; end: number };

/** How many records the group has not done yet, in all partitions. */
export function waitingIn(all: Progress[]): number {
  return all.reduce((sum, { committed, end }) => sum + end - committed, 0);
}

/** Kafka as we use it. Only the files named kafka know which client library is behind it. */
export type Kafka = ReturnType<typeof connectKafka>;

// Each partition's part of a request must fit into the broker's max.message.bytes (default 1 MiB), even when all records
// of a request have the same key. A longer record goes alone: the consumer sets aside up to 900,000 bytes and what names them.
const BYTES_PER_REQUEST = 900_000;
// Lengths and numbers that Kafka puts before a record, and before each header, at their longest.
const BYTES_BEFORE_RECORD = 40;
const BYTES_BEFORE_HEADER = 10;
const ANSWER_WITHIN_MS = 15_000;
const DISCONNECT_WITHIN_MS = 3_000;
const HOUR_MS = 3_600_000;

/** A connection to Kafka that is opened on first use, and again after Kafka was unavailable. */
export function connectKafka(config: KafkaConfig, program: string, log: Logger) {
  if (config.KAFKA_BROKERS.length === 0) throw new ConfigError(['KAFKA_BROKERS must be set with BUS=kafka']);
  const client = makeClient(config, program, log);
  const prefix = config.KAFKA_TOPIC_PREFIX;
  const topics = { usage: `${prefix}.usage.v1`, dead: `${prefix}.dead.v1` };
  const group = `${prefix}.books`;
  const producer = reconnecting<Producer>(() =>
    // Not idempotent: kafkajs's idempotent producer can lose a batch when an answer is lost. Repeated events are harmless.
    client.producer({
      idempotent: false,
      createPartitioner: Partitioners.DefaultPartitioner,
      allowAutoTopicCreation: false,
    }),
  );
  const admin = reconnecting<Admin>(() => client.admin());
  const ensure = () => admin.use((connected) => ensureTopics(connected, topics, config));

  return {
    /** `usage` carries usage events; `dead` keeps records that are not events. */
    topics,
    /** Creates missing topics and leaves existing ones as they are. */
    ensureTopics: ensure,
    /** Resolves once every in-sync replica has the records. When it rejects, Kafka may have some; send all again. */
    async produce(topic: string, records: Outgoing[]): Promise<void> {
      await producer.use((connected) =>
        Promise.all(splitIntoRequests(records).map((messages) => connected.send({ topic, messages, acks: -1 }))),
      );
    },
    /** Reads the usage topic as a member of the group that writes the books. */
    consume: (take: Take) => consumeTopic({ client, topic: topics.usage, group, prepare: ensure, take, log }),
    /** How far that group is in each partition. */
    progress: () => admin.use((connected) => progress(connected, topics.usage, group)),
    ready: () => admin.use(answers),
    async close(): Promise<void> {
      await Promise.all([producer.close(), admin.close()]);
    },
  };
}

/** Whether a broker on this machine has started and serves requests. */
export async function kafkaAnswers(login: KafkaLogin): Promise<boolean> {
  const config = { ...readConfig(groups.kafka, {}), ...login };
  const kafka = connectKafka(config, 'stack', makeLogger('stack', 'silent'));
  return kafka
    .ready()
    .catch(() => false)
    .finally(() => kafka.close());
}

async function answers(admin: Admin): Promise<boolean> {
  const { brokers, controller } = await admin.describeCluster();
  return brokers.length > 0 && controller !== null;
}

async function ensureTopics(admin: Admin, topics: Kafka['topics'], config: KafkaConfig): Promise<void> {
  const present = await admin.listTopics();
  const replicas = config.KAFKA_TOPIC_REPLICATION;
  const durable = {
    // Otherwise retention goes by the time of an event, and could delete a late one.
    'message.timestamp.type': 'LogAppendTime',
    'min.insync.replicas': String(Math.max(1, replicas - 1)),
    // Without another broker that has it, a record is on disk before it is acknowledged.
    ...(replicas === 1 && { 'flush.messages': '1' }),
  };
  const retentionMs = String(config.KAFKA_TOPIC_RETENTION_HOURS * HOUR_MS);
  const wanted = [
    { topic: topics.usage, partitions: config.KAFKA_TOPIC_PARTITIONS, settings: { 'retention.ms': retentionMs } },
    // Kept until an operator has looked at them.
    { topic: topics.dead, partitions: 1, settings: { 'retention.ms': '-1' } },
  ];
  const missing = wanted.filter(({ topic }) => !present.includes(topic));
  if (missing.length === 0) return;
  // It gives false when another program created them first.
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
  const offsets = new Map(committed?.partitions.map(({ partition, offset }) => [partition, Number(offset)]));
  return ends.map(({ partition, high, low }) => {
    // -1: nothing is committed yet. Below `low`: Kafka has deleted records that nobody read in time.
    return { partition, committed: Math.max(offsets.get(partition) ?? -1, Number(low)), end: Number(high) };
  });
}

function splitIntoRequests(records: Outgoing[]): Outgoing[][] {
  const requests: Outgoing[][] = [];
  let size = Infinity;
  for (const record of records) {
    const bytes = bytesOf(record);
    if (size + bytes > BYTES_PER_REQUEST) {
      requests.push([]);
      size = 0;
    }
    requests.at(-1)!.push(record);
    size += bytes;
  }
  return requests;
}

function bytesOf({ key, value, headers = {} }: Outgoing): number {
  let bytes = BYTES_BEFORE_RECORD + Buffer.byteLength(key ?? '') + Buffer.byteLength(value);
  for (const [name, text] of Object.entries(headers))
    bytes += BYTES_BEFORE_HEADER + Buffer.byteLength(name) + Buffer.byteLength(text);
  return bytes;
}

/** Connects on first use, and again after a failure, because a failed connection's state is not trusted. */
function reconnecting<T extends { connect(): Promise<void>; disconnect(): Promise<void> }>(make: () => T) {
  let current: Promise<T> | undefined;
  return {
    async use<Result>(work: (connected: T) => Promise<Result>): Promise<Result> {
      current ??= open();
      const mine = current;
      try {
        return await withTimeout(systemClock, ANSWER_WITHIN_MS, mine.then(work));
      } catch (error) {
        if (current === mine) current = undefined;
        mine.then(drop, () => {});
        throw error;
      }
    },
    async close(): Promise<void> {
      // A connection that is still being opened is not waited for longer than this.
      if (current) await withTimeout(systemClock, DISCONNECT_WITHIN_MS, current.then(drop)).catch(() => {});
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

  async function drop(connection: T): Promise<void> {
    await withTimeout(systemClock, DISCONNECT_WITHIN_MS, connection.disconnect()).catch(() => {});
  }
}
