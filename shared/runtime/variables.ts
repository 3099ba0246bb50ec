import {
  allowedTargets,
  flag,
  integer,
  key,
  list,
  needed,
  oneOf,
  optional,
  origins,
  ratio,
  seconds,
  text,
  url,
  type Variable,
} from './variable-kinds.ts';

const MOST_STORED = 1_000_000_000_000_000;

const single = {
  DATABASE_URL: needed('PostgreSQL, which holds all settings: `postgres://user:password@host:port/database`'),
  WEBHOOK_ALLOWED_TARGETS: allowedTargets(
    'targets of webhooks that may be inside of your network, each exactly as `team_…=host:port`, or `*=host:port` for all teams, separated by commas; empty: none',
  ),
  WEBHOOK_RETRY_SECONDS: optional(
    seconds(
      'seconds after each failed try of a webhook until the next one, separated by commas; after the last, a delivery has failed; empty: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h',
    ),
  ),
  REDIS_URL: needed(
    'Redis, where keys are verified: `redis://host:port`, or `redis+cluster://host:port,host:port` with some nodes of a cluster; it must run with AOF and `maxmemory-policy noeviction`',
  ),
  REDIS_MIN_REPLICAS: optional(
    integer(
      'number of Redis replicas that must hold a debit or a change before it is answered or booked; empty: 1 on a cluster, 0 on a single server',
      { min: 0, max: 10 },
    ),
  ),
  NODE_ENV: text(
    '`production`: refuse to start with settings that are safe only on a machine of your own, such as default passwords; empty: allow them',
  ),
  HOST: text('address to listen on; the default is reached from this machine alone', '127.0.0.1'),
  PORT: integer('port to listen on; 0: any free port', { default: 0, min: 0, max: 65535 }),
  OPS_PORT: optional(
    integer(
      'port of `/readyz`, `/servingz` and `/metrics`, for probes and Prometheus alone: clients then reach none of them on `PORT`, nor `/openapi.json` and `/docs` of verify; empty: all are on `PORT`',
      { min: 0, max: 65535 },
    ),
  ),
  LOG_LEVEL: oneOf(
    'least severe level that is logged: `trace`, `debug`, `info`, `warn`, `error` or `fatal`; `silent`: nothing is logged',
    ['info', 'trace', 'debug', 'warn', 'error', 'fatal', 'silent'],
  ),
  WORKERS: integer(
    'number of verify processes behind one port (above 1 on Linux and FreeBSD only); set one for each core that Redis leaves free',
    { default: 1, min: 1, max: 128 },
  ),
  CONSUMER_NAME: text(
    'name of this consumer or relay among the readers of the outbox; each running one needs a name of its own',
    'consumer-1',
  ),
  BUS: oneOf(
    'how usage events reach ClickHouse: `redis`: the consumer reads them from Redis; `kafka`: relays carry them from Redis to Kafka, where the consumer reads them',
    ['redis', 'kafka'],
  ),
  KAFKA_WATCHDOG_SECONDS: integer(
    'seconds after which a consumer exits, to be started again, when events wait in Kafka, all stores answer and it still makes no progress',
    { default: 120, min: 5, max: 86_400 },
  ),
};

const rolePasswords = {
  API_DATABASE_PASSWORD: text(
    'password that the migrations set for the role `keytally_api`, which the api logs in as; empty: it stays as it is',
  ),
  CONSUMER_DATABASE_PASSWORD: text(
    'password that the migrations set for the role `keytally_consumer`, which the consumer logs in as; empty: it stays as it is',
  ),
  WEBHOOKS_DATABASE_PASSWORD: text(
    'password that the migrations set for the role `keytally_webhooks`, which webhooks logs in as; empty: it stays as it is',
  ),
};

const clickHouse = {
  CLICKHOUSE_URL: needed('ClickHouse, which holds usage, over HTTP: `http://user:password@host:port/database`'),
  CLICKHOUSE_CLUSTER: text(
    'name of the ClickHouse cluster on which the tables are created, replicated; empty: a single server',
  ),
};

const masterKeys = {
  MASTER_KEY: key(
    '32 random bytes in base64 that encrypt signing keys, secrets of webhooks and the answers kept for an Idempotency-Key, and sign the ids of holds',
  ),
  MASTER_KEY_PREVIOUS: optional(
    key(
      'the master key before the current one, 32 bytes in base64; it only decrypts, and reads ids of holds, so that the master key can be changed; empty: none',
    ),
  ),
};

const vault = {
  VAULT_ADDR: url('Vault or OpenBao, whose transit engine decrypts the master key: `https://host:port`'),
  VAULT_NAMESPACE: text('namespace of Vault in which the transit engine is; empty: none'),
  VAULT_TOKEN: needed(
    'token of Vault that may update `transit/decrypt/keytally`, or what the two variables below name',
  ),
  VAULT_TRANSIT_MOUNT: text('path at which the transit engine is mounted', 'transit'),
  VAULT_TRANSIT_KEY: text('name of the key of the transit engine', 'keytally'),
  MASTER_KEY_CIPHERTEXT: needed(
    'the master key as the transit engine encrypted it, `vault:v1:…`; `vault-key` prints what it decrypts to',
  ),
};

/** What the api and verify read alike: both serve clients, and both verify keys. */
const clients = {
  TLS_CERTIFICATE_PATH: text(
    'file with the certificate chain (PEM) for serving HTTPS, read again when it changes; empty: plain HTTP',
  ),
  TLS_KEY_PATH: text('file with the private key (PEM) of that certificate; empty: plain HTTP'),
  TLS_BY_PROXY: flag('`true` where a proxy in front speaks TLS, so that plain HTTP may be served in production'),
  MAX_CONNECTIONS: integer('number of connections that one process holds open; it closes further ones at once', {
    default: 16_000,
    min: 10,
    max: 1_000_000,
  }),
  PUBLIC_API_URL: text(
    'URL of the api as clients reach it, for the OpenAPI document and the issuer of JWTs; `/`: the address that serves the document, and no URL as issuer',
    '/',
  ),
  PUBLIC_VERIFY_URL: text(
    'URL of verify as clients reach it, for the OpenAPI document; empty: the document of the api names the api alone',
  ),
  TRUSTED_PROXIES: list(
    'addresses and CIDR blocks of proxies whose `X-Forwarded-For` is believed, separated by commas; empty: none',
  ),
  VERIFY_DEADLINE_MS: integer('milliseconds in which a verification must be decided; after that it gets 503', {
    default: 250,
    min: 10,
    max: 10_000,
  }),
  VERIFY_MAX_WAITING: integer(
    'number of verifications that one process decides at a time; further ones get 503 once they are authenticated, except those of teams below their share, up to twice the number',
    { default: 4_000, min: 1, max: 100_000 },
  ),
  FAILED_AUTH_PER_MINUTE: integer(
    'number of failed authentications per minute and client address (IPv6: its /64 network); further failures get 429, a valid token always passes',
    { default: 100, min: 100, max: 1_000_000_000 },
  ),
  OUTBOX_MAX_ENTRIES: integer(
    'number of usage events that may wait in Redis; while more wait, metered verifications get 503',
    { default: 5_000_000, min: 1, max: 1_000_000_000 },
  ),
  OUTBOX_MAX_MEMORY_PERCENT: integer(
    "percent of a Redis server's `maxmemory`; while more is used, metered verifications get 503, and from 10 points below on the api makes nothing new",
    { default: 85, min: 20, max: 95 },
  ),
};

const api = {
  CORS_ORIGINS: origins(
    'origins whose web pages may call the api, such as `https://app.example.com`, separated by commas; empty: none',
  ),
  CALLS_PER_SECOND: integer(
    'number of management calls per second that one access token may make on each api; further ones get 429',
    { default: 1_000, min: 1, max: 1_000_000 },
  ),
  REQUEST_DEADLINE_MS: integer('milliseconds in which a management request must be answered; after that it gets 503', {
    default: 10_000,
    min: 100,
    max: 60_000,
  }),
  EXPORT_MAX_BYTES: integer('number of bytes that one export of usage may have; a larger one is refused', {
    default: 4 * 1024 ** 3,
    min: 1_000_000,
    max: 1024 ** 4,
  }),
};

/** What a team may have at most, unless it has a limit of its own. */
const quotas = {
  QUOTA_WORKSPACES: integer('number of workspaces that a team may have', { default: 1_000, min: 0, max: MOST_STORED }),
  QUOTA_KEYS: integer('number of API keys that a team may have', { default: 1_000_000, min: 0, max: MOST_STORED }),
  QUOTA_SCOPES: integer('number of scopes that a team may have, in all its workspaces', {
    default: 20_000,
    min: 0,
    max: MOST_STORED,
  }),
  QUOTA_ACCESS_TOKENS: integer('number of access tokens that a team may have', {
    default: 1_000,
    min: 0,
    max: MOST_STORED,
  }),
  QUOTA_BILLING_RECORDS: integer('number of billing records that a team may have', {
    default: 1_000_000,
    min: 0,
    max: MOST_STORED,
  }),
  QUOTA_STORED_BYTES: integer(
    'bytes that the settings of a team may take, about as Redis stores them; keep the sum of what your teams may have below 75 % of `maxmemory`',
    { default: 1_073_741_824, min: 0, max: MOST_STORED },
  ),
  QUOTA_LINK_TOKENS: integer(
    'number of link tokens that a team may have; each is kept until 30 days after it expires',
    { default: 1_000_000, min: 0, max: MOST_STORED },
  ),
  QUOTA_KEPT_ANSWER_BYTES: integer(
    'bytes that the answers may take which Postgres keeps for a team under Idempotency-Keys, each for 24 hours',
    { default: 4_294_967_296, min: 0, max: MOST_STORED },
  ),
  QUOTA_VERIFY_PER_SECOND: integer(
    'number of verifications per second that a team may make on each verify process; further ones get 429',
    { default: 20_000, min: 1, max: 1_000_000 },
  ),
  QUOTA_API_PER_SECOND: integer(
    'number of management calls per second that a team may make on each api; further ones get 429',
    { default: 2_000, min: 1, max: 1_000_000 },
  ),
};

/** Where a program sends traces and metrics, and which. */
const telemetry = {
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    url(
      'OpenTelemetry collector that gets traces and metrics by OTLP/HTTP: `http://host:4318`; empty: telemetry is off',
    ),
  ),
  OTEL_EXPORTER_OTLP_HEADERS: text(
    'headers for the collector, such as its token: `name=value`, separated by commas, values percent-encoded; empty: none',
  ),
  OTEL_SERVICE_NAME: text('service name in telemetry; empty: `keytally-` and the name of the program'),
  OTEL_RESOURCE_ATTRIBUTES: text(
    'what telemetry says of this process, such as `deployment.environment.name=production`: `name=value`, separated by commas, values percent-encoded',
  ),
  OTEL_TRACES_EXPORTER: oneOf('`none`: no traces are made, and callers are not asked for theirs', ['otlp', 'none']),
  OTEL_TRACES_SAMPLER: oneOf(
    'which requests are traced; those that begin with `parentbased_` do as the caller does in its `traceparent`, and by the rest of the name where there is none',
    [
      'parentbased_traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'traceidratio',
      'always_on',
      'always_off',
    ],
  ),
  OTEL_TRACES_SAMPLER_ARG: ratio('share of the requests that `traceidratio` traces, from 0 to 1'),
  OTEL_METRICS_EXPORTER: oneOf('`none`: no metrics are sent; Prometheus can read them all the same', ['otlp', 'none']),
  OTEL_METRIC_EXPORT_INTERVAL: integer('milliseconds between two sendings of metrics', {
    default: 60_000,
    min: 100,
    max: 3_600_000,
  }),
};

/** How a program connects to Kafka. */
const kafka = {
  KAFKA_BROKERS: list('addresses of Kafka brokers, `host:port`, separated by commas; must be set with `BUS=kafka`'),
  KAFKA_TOPIC_PREFIX: text('prefix of the names of the Kafka topics and of the consumer group', 'keytally'),
  KAFKA_TOPIC_PARTITIONS: integer(
    'number of partitions with which the usage topic is created; at most as many consumers can share its work',
    { default: 12, min: 1, max: 1_000 },
  ),
  KAFKA_TOPIC_RETENTION_HOURS: integer(
    'hours for which Kafka keeps usage events; set more than any outage of ClickHouse may last',
    { default: 168, min: 1, max: 100_000 },
  ),
  KAFKA_TOPIC_REPLICATION: integer(
    'number of brokers that hold a copy of each usage event; set 3 where there are at least three brokers',
    { default: 1, min: 1, max: 10 },
  ),
  KAFKA_TLS: flag('`true`: connect to Kafka over TLS'),
  KAFKA_TLS_CA: text(
    "certificate (PEM, the text itself) of the authority that signed the brokers' certificates; empty: the system's authorities",
  ),
  KAFKA_SASL_MECHANISM: oneOf(
    'how to log in to Kafka: `plain`, `scram-sha-256` or `scram-sha-512`; empty: without a login',
    ['', 'plain', 'scram-sha-256', 'scram-sha-512'],
  ),
  KAFKA_SASL_USERNAME: text('user name for Kafka'),
  KAFKA_SASL_PASSWORD: text('password of that user'),
};

/**
 * Every environment variable that the programs read, in groups that are read together; programs.ts says which program reads which.
 * A variable without a default must be set. `NAME_FILE` may name a file that holds the value instead, for secrets. The texts here
 * are the configuration reference: after a change run `npm run reference`.
 */
export const groups = { single, rolePasswords, clickHouse, masterKeys, vault, clients, api, quotas, telemetry, kafka };

/** All of them. */
export const variables = {
  ...single,
  ...rolePasswords,
  ...clickHouse,
  ...masterKeys,
  ...vault,
  ...clients,
  ...api,
  ...quotas,
  ...telemetry,
  ...kafka,
};

/** Some variables, by their names. */
export type Variables = Record<string, Variable<unknown>>;
/** The values of some variables, as `readConfig` returns them. */
export type ConfigOf<Read extends Variables> = { [Name in keyof Read]: ReturnType<Read[Name]['parse']> };
export type Config = ConfigOf<typeof variables>;
export type KafkaConfig = ConfigOf<typeof groups.kafka>;
/** How a program finds Kafka and logs in there, without TLS. */
export type KafkaLogin = Pick<
  KafkaConfig,
  'KAFKA_BROKERS' | 'KAFKA_SASL_MECHANISM' | 'KAFKA_SASL_USERNAME' | 'KAFKA_SASL_PASSWORD'
>;
export type TelemetryConfig = ConfigOf<typeof groups.telemetry>;
