import { groups, type Variables } from './variables.ts';

const { clickHouse, masterKeys, vault, rolePasswords, clients, api, oidc, quotas, telemetry, kafka } = groups;
const { DATABASE_URL, NODE_ENV, WEBHOOK_ALLOWED_TARGETS, WEBHOOK_RETRY_SECONDS } = groups.single;
const { TEST_CLOCK_FILE, TEST_TOKEN, BUS, CONSUMER_NAME, KAFKA_WATCHDOG_SECONDS, WORKERS } = groups.single;
const { REDIS_URL, REDIS_MIN_REPLICAS, LOG_LEVEL, HOST, PORT, OPS_PORT } = groups.single;
const { QUOTA_VERIFY_PER_SECOND } = quotas;

const redis = { REDIS_URL, REDIS_MIN_REPLICAS };
const settings = { NODE_ENV, DATABASE_URL };
const stores = { ...settings, ...redis, ...clickHouse };
/** What every program that keeps running reads. */
const service = { NODE_ENV, LOG_LEVEL, HOST, PORT, OPS_PORT, ...telemetry };

/** What each program reads. A test checks docker-compose.yml against these lists, and so finds a misspelt variable. */
export const programs = {
  api: {
    ...service,
    ...stores,
    ...clients,
    ...masterKeys,
    ...api,
    ...oidc,
    ...quotas,
    WEBHOOK_ALLOWED_TARGETS,
    TEST_CLOCK_FILE,
  },
  verify: { ...service, ...redis, ...clients, QUOTA_VERIFY_PER_SECOND, WORKERS },
  relay: { ...service, ...redis, ...kafka, CONSUMER_NAME },
  consumer: { ...service, ...stores, ...kafka, BUS, CONSUMER_NAME, KAFKA_WATCHDOG_SECONDS },
  // It has no part in Redis and in the books: it alone calls outside.
  webhooks: { ...service, ...settings, ...masterKeys, WEBHOOK_ALLOWED_TARGETS, WEBHOOK_RETRY_SECONDS },
  migrate: { ...settings, ...rolePasswords, ...clickHouse },
  token: { ...settings, REDIS_URL, TEST_TOKEN },
  quota: { ...settings, REDIS_URL, ...quotas },
  'audit-log-verify': { ...settings, ...redis },
  'vault-key': { NODE_ENV, ...vault },
  tool: stores,
} satisfies Record<string, Variables>;
