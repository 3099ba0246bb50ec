import { createRequire } from 'node:module';
import { Kafka as Client, logLevel, Partitioners } from 'kafkajs';
import type { ICustomPartitioner, KafkaConfig as Options, LogEntry } from 'kafkajs';
import type { KafkaConfig } from '../runtime/programs.ts';
import type { Logger } from '../runtime/log.ts';

const SAME_LINE_EVERY_MS = 10_000;
// About 100 bytes each.
const MAX_REMEMBERED_KEYS = 100_000;

/** Where a record goes: by its key as every client of Kafka does it, but reckoned once for each key. */
export const makePartitioner: ICustomPartitioner = () => {
  const byHash = Partitioners.DefaultPartitioner();
  const known = new Map<string, number>();
  let partitions = 0;
  return function choosePartition(args) {
    const { message, partitionMetadata } = args;
    if (typeof message.key !== 'string') return byHash(args);
    if (partitionMetadata.length !== partitions || known.size > MAX_REMEMBERED_KEYS) known.clear();
    partitions = partitionMetadata.length;
    let partition = known.get(message.key);
    if (partition === undefined) known.set(message.key, (partition = byHash(args)));
    return partition;
  };
};

/** A kafkajs client. Each use of it connects by itself. */
export function makeClient(config: KafkaConfig, program: string, log: Logger): Client {
  stopEmptyTimers();
  return new Client({
    clientId: `keytally-${program}`,
    brokers: config.KAFKA_BROKERS,
    connectionTimeout: 3_000,
    requestTimeout: 10_000,
    // Short: whoever calls tries again, and tells it.
    retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 3 },
    ...(config.KAFKA_TLS && { ssl: config.KAFKA_TLS_CA ? { ca: [config.KAFKA_TLS_CA] } : true }),
    ...login(config),
    logLevel: logLevel.WARN,
    logCreator: () => logLines(log),
  });
}

/** A client for a broker on this machine, which says nothing. */
export function makeQuietClient(brokers: string[]): Client {
  stopEmptyTimers();
  return new Client({ clientId: 'keytally', brokers, logLevel: logLevel.NOTHING, retry: { retries: 0 } });
}

function login(config: KafkaConfig): Pick<Options, 'sasl'> {
  const { KAFKA_SASL_MECHANISM: mechanism, KAFKA_SASL_USERNAME: username, KAFKA_SASL_PASSWORD: password } = config;
  switch (mechanism) {
    case '':
      return {};
    case 'plain':
      return { sasl: { mechanism, username, password } };
    case 'scram-sha-256':
      return { sasl: { mechanism, username, password } };
    case 'scram-sha-512':
      return { sasl: { mechanism, username, password } };
    default:
      return mechanism satisfies never;
  }
}

// While a broker is away kafkajs tells every attempt, several times: the same line is logged once in a while. Only what
// names places and causes is passed on.
function logLines(log: Logger): (entry: LogEntry) => void {
  const lastMs = new Map<string, number>();
  return ({ namespace, log: { message, broker, groupId, topic, partition, error } }) => {
    const line = `${namespace}: ${message}`;
    const now = performance.now();
    if (now - (lastMs.get(line) ?? -Infinity) < SAME_LINE_EVERY_MS) return;
    if (lastMs.size > 1_000) lastMs.clear();
    lastMs.set(line, now);
    log.warn({ broker, groupId, topic, partition, error }, `kafka: ${line}`);
  };
}

type RequestQueue = { pending: unknown[]; throttledUntil: number };
let stopped = false;

/**
 * After each answer kafkajs 2.2.4 sets a timer that lies in the past. It ends at once and sets the next: a thousand
 * times a second for each connection, with a warning of Node's (its issues 1704 and 1751, both open). The timer is
 * needed only where a request waits or the broker asked for a pause.
 */
function stopEmptyTimers(): void {
  if (stopped) return;
  stopped = true;
  const { prototype } = createRequire(import.meta.url)('kafkajs/src/network/requestQueue/index.js') as {
    prototype: { scheduleCheckPendingRequests(this: RequestQueue): void };
  };
  const schedule = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function scheduleWhereNeeded() {
    if (this.pending.length > 0 || this.throttledUntil > Date.now()) schedule.call(this);
  };
}
