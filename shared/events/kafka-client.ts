import { createRequire } from 'node:module';
import { Kafka as Client, logLevel } from 'kafkajs';
import type { KafkaConfig as Options, LogEntry } from 'kafkajs';
import { systemClock } from '../runtime/clock.ts';
import type { KafkaConfig } from '../runtime/variables.ts';
import type { Logger } from '../runtime/log.ts';

const SAME_LINE_EVERY_MS = 10_000;

/** A kafkajs client. Its producers, consumers and admins connect one by one. */
export function makeClient(config: KafkaConfig, program: string, log: Logger): Client {
  stopEmptyTimers();
  return new Client({
    clientId: `keytally-${program}`,
    brokers: config.KAFKA_BROKERS,
    connectionTimeout: 3_000,
    requestTimeout: 10_000,
    // Few and short: every caller of ours tries again and logs it.
    retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 3 },
    ...(config.KAFKA_TLS && { ssl: config.KAFKA_TLS_CA ? { ca: [config.KAFKA_TLS_CA] } : true }),
    ...saslOf(config),
    logLevel: logLevel.WARN,
    logCreator: () => logLines(log),
  });
}

function saslOf(config: KafkaConfig): Pick<Options, 'sasl'> {
  const { KAFKA_SASL_MECHANISM: mechanism, KAFKA_SASL_USERNAME: username, KAFKA_SASL_PASSWORD: password } = config;
  // kafkajs has a type of its own for each mechanism.
  return mechanism === '' ? {} : { sasl: { mechanism, username, password } as NonNullable<Options['sasl']> };
}

// While a broker is unavailable kafkajs logs every attempt several times, so the same line is logged once in 10 s. Only
// fields that say where and why are passed on.
function logLines(log: Logger): (entry: LogEntry) => void {
  const lastMs = new Map<string, number>();
  return ({ namespace, log: { message, broker, groupId, topic, partition, error } }) => {
    const line = `${namespace}: ${message}`;
    const now = systemClock.monotonic();
    if (now - (lastMs.get(line) ?? -Infinity) < SAME_LINE_EVERY_MS) return;
    if (lastMs.size > 1_000) lastMs.clear();
    lastMs.set(line, now);
    log.warn({ broker, groupId, topic, partition, error }, `kafka: ${line}`);
  };
}

type RequestQueue = { pending: unknown[]; throttledUntil: number };
let stopped = false;

/**
 * After each answer kafkajs 2.2.4 sets a timer for a moment in the past. It fires at once and sets the next, a thousand
 * times a second for each connection, and Node warns (kafkajs issues 1704 and 1751, both open). The timer is needed only
 * while a request waits or the broker has asked for a pause.
 */
function stopEmptyTimers(): void {
  if (stopped) return;
  stopped = true;
  const { prototype } = createRequire(import.meta.url)('kafkajs/src/network/requestQueue/index.js') as {
    prototype: { scheduleCheckPendingRequests(this: RequestQueue): void };
  };
  const schedule = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function scheduleIfNeeded() {
    if (this.pending.length > 0 || this.throttledUntil > systemClock.now()) schedule.call(this);
  };
}
