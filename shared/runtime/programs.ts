import type { Config, variables } from './variables.ts';

/** What connects a program to Kafka. */
export const kafkaVariables = [
  ...(['KAFKA_BROKERS', 'KAFKA_TLS', 'KAFKA_TLS_CA'] as const),
  ...(['KAFKA_SASL_MECHANISM', 'KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'] as const),
  ...(['KAFKA_TOPIC_PREFIX', 'KAFKA_TOPIC_PARTITIONS'] as const),
  ...(['KAFKA_TOPIC_RETENTION_HOURS', 'KAFKA_TOPIC_REPLICATION'] as const),
] as const;

export type KafkaConfig = Pick<Config, (typeof kafkaVariables)[number]>;

/** How a server that clients reach is served. */
const serverVariables = ['TLS_CERTIFICATE_PATH', 'TLS_KEY_PATH', 'TLS_BY_PROXY', 'MAX_CONNECTIONS'] as const;

/** What each program reads. docker-compose.yml is held to it, so that a misspelt variable there is found by a test. */
export const programs = {
  api: [
    'NODE_ENV',
    'LOG_LEVEL',
    'DATABASE_URL',
    'REDIS_URL',
    'REDIS_MIN_REPLICAS',
    'CLICKHOUSE_URL',
    'CLICKHOUSE_CLUSTER',
    'MASTER_KEY',
    'MASTER_KEY_PREVIOUS',
    'HOST',
    'PORT',
    ...serverVariables,
    'PUBLIC_API_URL',
    'CORS_ORIGINS',
    'TRUSTED_PROXIES',
    'FAILED_AUTH_PER_MINUTE',
    'CALLS_PER_SECOND',
    'VERIFY_DEADLINE_MS',
    'VERIFY_MAX_WAITING',
    'REQUEST_DEADLINE_MS',
    'OUTBOX_MAX_ENTRIES',
  ],
  verify: [
    'NODE_ENV',
    'LOG_LEVEL',
    'REDIS_URL',
    'REDIS_MIN_REPLICAS',
    'HOST',
    'PORT',
    ...serverVariables,
    'PUBLIC_API_URL',
    'TRUSTED_PROXIES',
    'FAILED_AUTH_PER_MINUTE',
    'VERIFY_DEADLINE_MS',
    'VERIFY_MAX_WAITING',
    'WORKERS',
    'OUTBOX_MAX_ENTRIES',
  ],
  consumer: [
    'NODE_ENV',
    'LOG_LEVEL',
    'DATABASE_URL',
    'REDIS_URL',
    'REDIS_MIN_REPLICAS',
    'CLICKHOUSE_URL',
    'CLICKHOUSE_CLUSTER',
    'HOST',
    'PORT',
    'CONSUMER_NAME',
    'BUS',
    ...kafkaVariables,
    'KAFKA_WATCHDOG_SECONDS',
  ],
  relay: [
    'NODE_ENV',
    'LOG_LEVEL',
    'REDIS_URL',
    'REDIS_MIN_REPLICAS',
    'HOST',
    'PORT',
    'CONSUMER_NAME',
    ...kafkaVariables,
  ],
  migrate: [
    'NODE_ENV',
    'DATABASE_URL',
    'API_DATABASE_PASSWORD',
    'CONSUMER_DATABASE_PASSWORD',
    'CLICKHOUSE_URL',
    'CLICKHOUSE_CLUSTER',
  ],
  token: ['NODE_ENV', 'DATABASE_URL', 'REDIS_URL'],
  tool: ['NODE_ENV', 'DATABASE_URL', 'REDIS_URL', 'REDIS_MIN_REPLICAS', 'CLICKHOUSE_URL', 'CLICKHOUSE_CLUSTER'],
} as const satisfies Record<string, readonly (keyof typeof variables)[]>;
