import {
  flag,
  integer,
  key,
  list,
  masterKey,
  oneOf,
  origins,
  text,
  wholeNumber,
  type Variable,
} from './variable-kinds.ts';

/**
 * Every environment variable that the programs read. A variable without a preset must be given. `NAME_FILE` names a
 * file that holds the value instead, for secrets.
 */
export const variables = {
  DATABASE_URL: text('PostgreSQL, the truth of all settings'),
  API_DATABASE_PASSWORD: text(
    'password that the migrations give the role `keytally_api`, which the api logs in as; empty: it keeps its own',
    { default: '' },
  ),
  CONSUMER_DATABASE_PASSWORD: text('the same for the role `keytally_consumer`', { default: '' }),
  REDIS_URL: text(
    'Redis (AOF, `maxmemory-policy noeviction`), where keys are verified; `redis+cluster://host:port,host:port` names nodes of a cluster',
  ),
  REDIS_MIN_REPLICAS: {
    about: 'replicas that must have a debit or a change before it is answered or booked; empty: 1 on a cluster, else 0',
    default: '',
    parse: (given) => (given === '' ? undefined : wholeNumber(given, 0, 10)),
  } satisfies Variable<number | undefined>,
  CLICKHOUSE_URL: text('ClickHouse over HTTP, with the database in the path'),
  CLICKHOUSE_CLUSTER: text('the ClickHouse cluster to make replicated tables on; empty: one server', { default: '' }),
  MASTER_KEY: key('32 bytes in base64 under which signing keys and kept answers are encrypted'),
  MASTER_KEY_PREVIOUS: {
    about: 'a second one, which only opens what was encrypted under it: for changing the first',
    default: '',
    parse: (given) => (given === '' ? undefined : masterKey(given)),
  } satisfies Variable<Buffer | undefined>,
  NODE_ENV: text('`production` refuses to start with what is only safe on a machine of your own', { default: '' }),
  HOST: text('address to listen on', { default: '127.0.0.1' }),
  PORT: integer('port to listen on; 0 takes a free one', { default: 0, min: 0, max: 65535 }),
  TLS_CERTIFICATE_PATH: text('file with the certificate chain (PEM) to serve TLS with, read anew when it changes', {
    default: '',
  }),
  TLS_KEY_PATH: text('file with its private key (PEM); both empty: plain HTTP', { default: '' }),
  TLS_BY_PROXY: flag('whether a proxy in front speaks TLS, so that plain HTTP may be served in production'),
  MAX_CONNECTIONS: integer('connections at a time; further ones are closed at once', {
    default: 16_000,
    min: 10,
    max: 1_000_000,
  }),
  PUBLIC_API_URL: text("the api's address as clients reach it, for the OpenAPI document", { default: '/' }),
  CORS_ORIGINS: origins('web pages of which origins may call the api, `https://app.example.com`; empty: none'),
  TRUSTED_PROXIES: list('addresses and CIDR blocks of proxies whose `X-Forwarded-For` counts'),
  LOG_LEVEL: oneOf('least severe lines that are logged', [
    'info',
    'trace',
    'debug',
    'warn',
    'error',
    'fatal',
    'silent',
  ]),
  VERIFY_DEADLINE_MS: integer('a verification not decided by then is a 503', { default: 250, min: 10, max: 10_000 }),
  VERIFY_MAX_WAITING: integer(
    'verifications that one process decides at once; those on top are a 503 before any work',
    {
      default: 4_000,
      min: 1,
      max: 100_000,
    },
  ),
  FAILED_AUTH_PER_MINUTE: integer(
    'failed authentications of one address (IPv6: of its /64) above which further ones are 429; a valid token always passes',
    { default: 100, min: 100, max: 1_000_000_000 },
  ),
  CALLS_PER_SECOND: integer('management calls a second of one access token, on each api, above which it gets 429', {
    default: 1_000,
    min: 1,
    max: 1_000_000,
  }),
  REQUEST_DEADLINE_MS: integer('a management request not answered by then is a 503', {
    default: 10_000,
    min: 100,
    max: 60_000,
  }),
  WORKERS: integer('verify processes behind one port (on Linux and FreeBSD); one for each core that Redis leaves', {
    default: 1,
    min: 1,
    max: 128,
  }),
  OUTBOX_MAX_ENTRIES: integer('usage events waiting in Redis above which metered verifications get 503', {
    default: 5_000_000,
    min: 1,
    max: 1_000_000_000,
  }),
  CONSUMER_NAME: text("the consumer's name in its group; each running consumer needs its own", {
    default: 'consumer-1',
  }),
  BUS: oneOf('what carries usage events to the books: the consumer reads Redis itself, or Kafka that relays feed', [
    'redis',
    'kafka',
  ]),
  KAFKA_BROKERS: list('addresses of Kafka brokers, `host:port`; must be set with `BUS=kafka`'),
  KAFKA_TOPIC_PREFIX: text('what the names of topics and of the consumer group begin with', { default: 'keytally' }),
  KAFKA_TOPIC_PARTITIONS: integer('partitions of the usage topic when it is made: at most so many consumers share it', {
    default: 12,
    min: 1,
    max: 1_000,
  }),
  KAFKA_TOPIC_RETENTION_HOURS: integer('for how long Kafka keeps usage events: longer than any outage of the books', {
    default: 168,
    min: 1,
    max: 100_000,
  }),
  KAFKA_TOPIC_REPLICATION: integer('brokers that keep each usage event; 3 where there are as many', {
    default: 1,
    min: 1,
    max: 10,
  }),
  KAFKA_TLS: flag('whether Kafka is spoken to over TLS'),
  KAFKA_TLS_CA: text("certificate (PEM) of the authority that signed the brokers', where the system does not know it", {
    default: '',
  }),
  KAFKA_SASL_MECHANISM: oneOf('how to log in to Kafka; empty for not at all', [
    '',
    'plain',
    'scram-sha-256',
    'scram-sha-512',
  ]),
  KAFKA_SASL_USERNAME: text('user to log in to Kafka as', { default: '' }),
  KAFKA_SASL_PASSWORD: text('its password', { default: '' }),
  KAFKA_WATCHDOG_SECONDS: integer('a consumer whose events wait for so long in a Kafka that answers, ends', {
    default: 120,
    min: 5,
    max: 86_400,
  }),
} satisfies Record<string, Variable<unknown>>;

export type Config = { [Name in keyof typeof variables]: ReturnType<(typeof variables)[Name]['parse']> };
