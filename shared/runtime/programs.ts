import type { Config, variables } from './variables.ts';

type Names = readonly (keyof typeof variables)[];

const redisVariables = ['REDIS_URL', 'REDIS_MIN_REPLICAS'] as const satisfies Names;
const clickHouseVariables = ['CLICKHOUSE_URL', 'CLICKHOUSE_CLUSTER'] as const satisfies Names;

/** How a program connects to Kafka. */
export const kafkaVariables = [
  'KAFKA_BROKERS',
  'KAFKA_TLS',
  'KAFKA_TLS_CA',
  'KAFKA_SASL_MECHANISM',
  'KAFKA_SASL_USERNAME',
  'KAFKA_SASL_PASSWORD',
  'KAFKA_TOPIC_PREFIX',
  'KAFKA_TOPIC_PARTITIONS',
  'KAFKA_TOPIC_RETENTION_HOURS',
  'KAFKA_TOPIC_REPLICATION',
] as const satisfies Names;

export type KafkaConfig = Pick<Config, (typeof kafkaVariables)[number]>;
/** How a program finds Kafka and logs in there, without TLS. */
export type KafkaLogin = Pick<
  KafkaConfig,
  'KAFKA_BROKERS' | 'KAFKA_SASL_MECHANISM' | 'KAFKA_SASL_USERNAME' | 'KAFKA_SASL_PASSWORD'
>;

/** Where a program sends traces and metrics, and which. */
export const telemetryVariables = [
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_SERVICE_NAME',
  'OTEL_RESOURCE_ATTRIBUTES',
  'OTEL_TRACES_EXPORTER',
  'OTEL_TRACES_SAMPLER',
  'OTEL_TRACES_SAMPLER_ARG',
  'OTEL_METRICS_EXPORTER',
  'OTEL_METRIC_EXPORT_INTERVAL',
] as const satisfies Names;

export type TelemetryConfig = Pick<Config, (typeof telemetryVariables)[number]>;

/** What the api and verify read alike: both serve clients, and both verify keys. */
const clientVariables = [
  'TLS_CERTIFICATE_PATH',
  'TLS_KEY_PATH',
  'TLS_BY_PROXY',
  'MAX_CONNECTIONS',
  'PUBLIC_API_URL',
  'PUBLIC_VERIFY_URL',
  'TRUSTED_PROXIES',
  'FAILED_AUTH_PER_MINUTE',
  'VERIFY_DEADLINE_MS',
  'VERIFY_MAX_WAITING',
  'OUTBOX_MAX_ENTRIES',
  'OUTBOX_MAX_MEMORY_PERCENT',
] as const satisfies Names;

/** What a team may have at most, unless it has a limit of its own. */
const quotaVariables = [
  'QUOTA_WORKSPACES',
  'QUOTA_KEYS',
  'QUOTA_SCOPES',
  'QUOTA_ACCESS_TOKENS',
  'QUOTA_BILLING_RECORDS',
  'QUOTA_STORED_BYTES',
  'QUOTA_LINK_TOKENS',
  'QUOTA_KEPT_ANSWER_BYTES',
  'QUOTA_VERIFY_PER_SECOND',
  'QUOTA_API_PER_SECOND',
] as const satisfies Names;

/** What every program that keeps running reads. */
const serviceVariables = [
  'NODE_ENV',
  'LOG_LEVEL',
  'HOST',
  'PORT',
  'OPS_PORT',
  ...redisVariables,
  ...telemetryVariables,
] as const satisfies Names;

/** What each program reads. A test checks docker-compose.yml against these lists, and so finds a misspelt variable. */
export const programs = {
  api: [
    ...serviceVariables,
    ...clientVariables,
    ...clickHouseVariables,
    'DATABASE_URL',
    'MASTER_KEY',
    'MASTER_KEY_PREVIOUS',
    'CORS_ORIGINS',
    'CALLS_PER_SECOND',
    ...quotaVariables,
    'REQUEST_DEADLINE_MS',
    'WEBHOOK_ALLOWED_TARGETS',
    'EXPORT_MAX_BYTES',
  ],
  verify: [...serviceVariables, ...clientVariables, 'QUOTA_VERIFY_PER_SECOND', 'WORKERS'],
  relay: [...serviceVariables, ...kafkaVariables, 'CONSUMER_NAME'],
  consumer: [
    ...serviceVariables,
    ...kafkaVariables,
    ...clickHouseVariables,
    'DATABASE_URL',
    'BUS',
    'CONSUMER_NAME',
    'KAFKA_WATCHDOG_SECONDS',
  ],
  // It has no part in Redis and in the books: it alone calls outside.
  webhooks: [
    ...(['NODE_ENV', 'LOG_LEVEL', 'HOST', 'PORT', 'OPS_PORT', 'DATABASE_URL'] as const),
    ...(['MASTER_KEY', 'MASTER_KEY_PREVIOUS', 'WEBHOOK_ALLOWED_TARGETS', 'WEBHOOK_RETRY_SECONDS'] as const),
    ...telemetryVariables,
  ],
  migrate: [
    ...(['NODE_ENV', 'DATABASE_URL', 'API_DATABASE_PASSWORD', 'CONSUMER_DATABASE_PASSWORD'] as const),
    'WEBHOOKS_DATABASE_PASSWORD',
    ...clickHouseVariables,
  ],
  token: ['NODE_ENV', 'DATABASE_URL', 'REDIS_URL'],
  quota: ['NODE_ENV', 'DATABASE_URL', 'REDIS_URL', ...quotaVariables],
  'audit-log-verify': ['NODE_ENV', 'DATABASE_URL', ...redisVariables],
  'vault-key': [
    ...(['NODE_ENV', 'VAULT_ADDR', 'VAULT_NAMESPACE', 'VAULT_TOKEN', 'VAULT_TRANSIT_MOUNT'] as const),
    ...(['VAULT_TRANSIT_KEY', 'MASTER_KEY_CIPHERTEXT'] as const),
  ],
  tool: ['NODE_ENV', 'DATABASE_URL', ...redisVariables, ...clickHouseVariables],
} as const satisfies Record<string, Names>;
