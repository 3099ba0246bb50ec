import { variablesOf, type Variable } from './variable-kinds.ts';

/**
 * Every environment variable that the programs read, in groups that are read together; programs.ts says which program reads which.
 * A variable without a default must be set. `NAME_FILE` may name a file that holds the value instead, for secrets. The texts here
 * are the configuration reference: after a change run `npm run reference`.
 */
export const groups = {
  single: variablesOf({
    DATABASE_URL: 'needed: PostgreSQL, which holds all settings: `postgres://user:password@host:port/database`',
    WEBHOOK_ALLOWED_TARGETS:
      'targets: targets of webhooks that may be inside of your network, each exactly as `team_…=host:port`, or `*=host:port` for all teams, separated by commas; for development `*=http://host:port`, or any port by `:*`; empty: none',
    WEBHOOK_RETRY_SECONDS:
      'seconds?: seconds after each failed try of a webhook until the next one, separated by commas; after the last, a delivery has failed; empty: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h',
    REDIS_URL:
      'needed: Redis, where keys are verified: `redis://host:port`, or `redis+cluster://host:port,host:port` with some nodes of a cluster; it must run with AOF and `maxmemory-policy noeviction`',
    REDIS_MIN_REPLICAS:
      'integer? 0..10: number of Redis replicas that must hold a debit or a change before it is answered or booked; empty: 1 on a cluster, 0 on a single server',
    NODE_ENV:
      'text: `production`: refuse to start with settings that are safe only on a machine of your own, such as default passwords; empty: allow them',
    HOST: 'text = 127.0.0.1: address to listen on; the default is reached from this machine alone',
    PORT: 'integer 0..65535 = 0: port to listen on; 0: any free port',
    OPS_PORT:
      'integer? 0..65535: port of `/readyz`, `/servingz` and `/metrics`, for probes and Prometheus alone: clients then reach none of them on `PORT`, nor `/openapi.json` and `/docs` of verify; empty: all are on `PORT`',
    LOG_LEVEL:
      'choice info|trace|debug|warn|error|fatal|silent: least severe level that is logged: `trace`, `debug`, `info`, `warn`, `error` or `fatal`; `silent`: nothing is logged',
    WORKERS:
      'integer 1..128 = 1: number of verify processes behind one port (above 1 on Linux and FreeBSD only); set one for each core that Redis leaves free',
    TEST_CLOCK_FILE:
      'text: for development alone: the file that `POST /api/v1/test-clock` moves the clock by; empty: none',
    TEST_TOKEN: 'text: for development alone: the access token that `token` makes; empty: a random one',
    CONSUMER_NAME:
      'text = consumer-1: name of this consumer or relay among the readers of the outbox; each running one needs a name of its own',
    BUS: 'choice redis|kafka: how usage events reach ClickHouse: `redis`: the consumer reads them from Redis; `kafka`: relays carry them from Redis to Kafka, where the consumer reads them',
    KAFKA_WATCHDOG_SECONDS:
      'integer 5..86400 = 120: seconds after which a consumer exits, to be started again, when events wait in Kafka, all stores answer and it still makes no progress',
  }),
  rolePasswords: variablesOf({
    API_DATABASE_PASSWORD:
      'text: password that the migrations set for the role `keytally_api`, which the api logs in as; empty: it stays as it is',
    CONSUMER_DATABASE_PASSWORD:
      'text: password that the migrations set for the role `keytally_consumer`, which the consumer logs in as; empty: it stays as it is',
    WEBHOOKS_DATABASE_PASSWORD:
      'text: password that the migrations set for the role `keytally_webhooks`, which webhooks logs in as; empty: it stays as it is',
  }),
  clickHouse: variablesOf({
    CLICKHOUSE_URL: 'needed: ClickHouse, which holds usage, over HTTP: `http://user:password@host:port/database`',
    CLICKHOUSE_CLUSTER:
      'text: name of the ClickHouse cluster on which the tables are created, replicated; empty: a single server',
  }),
  masterKeys: variablesOf({
    MASTER_KEY:
      'key: 32 random bytes in base64 that encrypt signing keys, secrets of webhooks and the answers kept for an Idempotency-Key, and sign the ids of holds',
    MASTER_KEY_PREVIOUS:
      'key?: the master key before the current one, 32 bytes in base64; it only decrypts, and reads ids of holds, so that the master key can be changed; empty: none',
  }),
  vault: variablesOf({
    VAULT_ADDR: 'url: Vault or OpenBao, whose transit engine decrypts the master key: `https://host:port`',
    VAULT_NAMESPACE: 'text: namespace of Vault in which the transit engine is; empty: none',
    VAULT_TOKEN:
      'needed: token of Vault that may update `transit/decrypt/keytally`, or what the two variables below name',
    VAULT_TRANSIT_MOUNT: 'text = transit: path at which the transit engine is mounted',
    VAULT_TRANSIT_KEY: 'text = keytally: name of the key of the transit engine',
    MASTER_KEY_CIPHERTEXT:
      'needed: the master key as the transit engine encrypted it, `vault:v1:…`; `vault-key` prints what it decrypts to',
  }),
  /** What the api and verify read alike: both serve clients, and both verify keys. */
  clients: variablesOf({
    TLS_CERTIFICATE_PATH:
      'text: file with the certificate chain (PEM) for serving HTTPS, read again when it changes; empty: plain HTTP',
    TLS_KEY_PATH: 'text: file with the private key (PEM) of that certificate; empty: plain HTTP',
    TLS_BY_PROXY: 'flag: `true` where a proxy in front speaks TLS, so that plain HTTP may be served in production',
    MAX_CONNECTIONS:
      'integer 10..1e6 = 16000: number of connections that one process holds open; it closes further ones at once',
    PUBLIC_API_URL:
      'text = /: URL of the api as clients reach it, for the OpenAPI document and the issuer of JWTs; `/`: the address that serves the document, and no URL as issuer',
    PUBLIC_VERIFY_URL:
      'text: URL of verify as clients reach it, for the OpenAPI document; empty: the document of the api names the api alone',
    TRUSTED_PROXIES:
      'list: addresses and CIDR blocks of proxies whose `X-Forwarded-For` is believed, separated by commas; empty: none',
    VERIFY_DEADLINE_MS:
      'integer 10..10000 = 250: milliseconds in which a verification must be decided; after that it gets 503',
    VERIFY_MAX_WAITING:
      'integer 1..100000 = 4000: number of verifications that one process decides at a time; further ones get 503 once they are authenticated, except those of teams below their share, up to twice the number',
    FAILED_AUTH_PER_MINUTE:
      'integer 100..1e9 = 100: number of failed authentications per minute and client address (IPv6: its /64 network); further failures get 429, a valid token always passes',
    OUTBOX_MAX_ENTRIES:
      'integer 1..1e9 = 5000000: number of usage events that may wait in Redis; while more wait, metered verifications get 503',
    OUTBOX_MAX_MEMORY_PERCENT:
      "integer 20..95 = 85: percent of a Redis server's `maxmemory`; while more is used, metered verifications get 503, and from 10 points below on the api makes nothing new",
  }),
  api: variablesOf({
    CORS_ORIGINS:
      'origins: origins whose web pages may call the api, such as `https://app.example.com`, separated by commas; empty: none',
    CALLS_PER_SECOND:
      'integer 1..1e6 = 1000: number of management calls per second that one access token may make on each api; further ones get 429',
    REQUEST_DEADLINE_MS:
      'integer 100..60000 = 10000: milliseconds in which a management request must be answered; after that it gets 503',
    EXPORT_MAX_BYTES:
      'integer 1e6..1099511627776 = 4294967296: number of bytes that one export of usage may have; a larger one is refused',
  }),
  /** Where people sign in to the console, by OpenID Connect, and what they may do there. */
  oidc: variablesOf({
    OIDC_ISSUER:
      'url?: issuer of the OpenID Connect provider where people sign in to the console; empty: by access tokens alone',
    OIDC_CLIENT_ID: 'text: client at the provider, with the redirect address `PUBLIC_API_URL` and `/console`',
    OIDC_CLIENT_SECRET: 'text: secret of that client; empty: PKCE alone',
    OIDC_SCOPES: 'text: scopes to ask for, with blanks between; empty: `openid profile email`',
    OIDC_GROUPS_CLAIM: "text = groups: claim of the ID token that has a person's groups",
    OIDC_GROUPS: 'groups: groups and what they may do, `admins=*, support=workspace:read key:read`',
    OIDC_TEAM: 'text = demo: name of the team that people sign in to',
  }),
  /** What a team may have at most, unless it has a limit of its own. */
  quotas: variablesOf({
    QUOTA_WORKSPACES: 'integer 0..1e15 = 1000: number of workspaces that a team may have',
    QUOTA_KEYS: 'integer 0..1e15 = 1000000: number of API keys that a team may have',
    QUOTA_SCOPES: 'integer 0..1e15 = 20000: number of scopes that a team may have, in all its workspaces',
    QUOTA_ACCESS_TOKENS: 'integer 0..1e15 = 1000: number of access tokens that a team may have',
    QUOTA_BILLING_RECORDS: 'integer 0..1e15 = 1000000: number of billing records that a team may have',
    QUOTA_STORED_BYTES:
      'integer 0..1e15 = 1073741824: bytes that the settings of a team may take, about as Redis stores them; keep the sum of what your teams may have below 75 % of `maxmemory`',
    QUOTA_LINK_TOKENS:
      'integer 0..1e15 = 1000000: number of link tokens that a team may have; each is kept until 30 days after it expires',
    QUOTA_KEPT_ANSWER_BYTES:
      'integer 0..1e15 = 4294967296: bytes that the answers may take which Postgres keeps for a team under Idempotency-Keys, each for 24 hours',
    QUOTA_VERIFY_PER_SECOND:
      'integer 1..1e6 = 20000: number of verifications per second that a team may make on each verify process; further ones get 429',
    QUOTA_API_PER_SECOND:
      'integer 1..1e6 = 2000: number of management calls per second that a team may make on each api; further ones get 429',
  }),
  /** Where a program sends traces and metrics, and which. */
  telemetry: variablesOf({
    OTEL_EXPORTER_OTLP_ENDPOINT:
      'url?: OpenTelemetry collector that gets traces and metrics by OTLP/HTTP: `http://host:4318`; empty: telemetry is off',
    OTEL_EXPORTER_OTLP_HEADERS:
      'text: headers for the collector, such as its token: `name=value`, separated by commas, values percent-encoded; empty: none',
    OTEL_SERVICE_NAME: 'text: service name in telemetry; empty: `keytally-` and the name of the program',
    OTEL_RESOURCE_ATTRIBUTES:
      'text: what telemetry says of this process, such as `deployment.environment.name=production`: `name=value`, separated by commas, values percent-encoded',
    OTEL_TRACES_EXPORTER: 'choice otlp|none: `none`: no traces are made, and callers are not asked for theirs',
    OTEL_TRACES_SAMPLER:
      'choice parentbased_traceidratio|parentbased_always_on|parentbased_always_off|traceidratio|always_on|always_off: which requests are traced; those that begin with `parentbased_` do as the caller does in its `traceparent`, and by the rest of the name where there is none',
    OTEL_TRACES_SAMPLER_ARG: 'ratio = 0.01: share of the requests that `traceidratio` traces, from 0 to 1',
    OTEL_METRICS_EXPORTER: 'choice otlp|none: `none`: no metrics are sent; Prometheus can read them all the same',
    OTEL_METRIC_EXPORT_INTERVAL: 'integer 100..3600000 = 60000: milliseconds between two sendings of metrics',
  }),
  /** How a program connects to Kafka. */
  kafka: variablesOf({
    KAFKA_BROKERS: 'list: addresses of Kafka brokers, `host:port`, separated by commas; must be set with `BUS=kafka`',
    KAFKA_TOPIC_PREFIX: 'text = keytally: prefix of the names of the Kafka topics and of the consumer group',
    KAFKA_TOPIC_PARTITIONS:
      'integer 1..1000 = 12: number of partitions with which the usage topic is created; at most as many consumers can share its work',
    KAFKA_TOPIC_RETENTION_HOURS:
      'integer 1..100000 = 168: hours for which Kafka keeps usage events; set more than any outage of ClickHouse may last',
    KAFKA_TOPIC_REPLICATION:
      'integer 1..10 = 1: number of brokers that hold a copy of each usage event; set 3 where there are at least three brokers',
    KAFKA_TLS: 'flag: `true`: connect to Kafka over TLS',
    KAFKA_TLS_CA:
      "text: certificate (PEM, the text itself) of the authority that signed the brokers' certificates; empty: the system's authorities",
    KAFKA_SASL_MECHANISM:
      'choice |plain|scram-sha-256|scram-sha-512: how to log in to Kafka: `plain`, `scram-sha-256` or `scram-sha-512`; empty: without a login',
    KAFKA_SASL_USERNAME: 'text: user name for Kafka',
    KAFKA_SASL_PASSWORD: 'text: password of that user',
  }),
};

type AllOf<Groups> = (Groups extends unknown ? (each: Groups) => void : never) extends (all: infer All) => void
  ? All
  : never;

/** All of them. */
export const variables = Object.assign({}, ...Object.values(groups)) as AllOf<(typeof groups)[keyof typeof groups]>;

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
