import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { makeTimings } from './timings.ts';

/**
 * Every metric of every program. A new one goes into the group below that its subject belongs to (labels spelled out
 * beside it, as `labelNames: [...]`) and onto the Grafana dashboard: a test refuses one that is not shown there.
 */
export type Metrics = ReturnType<typeof makeMetrics>;

/** The metrics of one program, labelled with its name. It answers all of them; those that it does not feed stay 0. */
export function makeMetrics(program: string) {
  const registry = new Registry();
  registry.setDefaultLabels({ program });
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    ...requestMetrics(registers),
    ...verificationMetrics(registers),
    ...outboxMetrics(registers),
    ...kafkaMetrics(registers),
    ...booksMetrics(registers),
    ...settingsMetrics(registers),
    ...auditMetrics(registers),
    ...jobMetrics(registers),
    ...webhookMetrics(registers),
  };
}

const fastSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const jobSeconds = [0.01, 0.1, 1, 10, 60];

/** HTTP requests, of the api and verify. */
function requestMetrics(registers: Registry[]) {
  return {
    httpSeconds: makeTimings({
      name: 'keytally_http_request_seconds',
      help: 'Time to answer a request, by route and status',
      labelNames: ['method', 'route', 'status'],
      buckets: fastSeconds,
      registers,
    }),
  };
}

/** Verifications, and the Redis scripts that every program runs. */
function verificationMetrics(registers: Registry[]) {
  return {
    verifications: new Counter({
      name: 'keytally_verifications_total',
      help: 'Verifications by status; UNDECIDED ended in a 503',
      labelNames: ['status'],
      registers,
    }),
    refusals: new Counter({
      name: 'keytally_refusals_total',
      help: 'Refused calls by reason, about a second after they were refused',
      labelNames: ['reason'],
      registers,
    }),
    droppedOutcomes: new Counter({
      name: 'keytally_dropped_outcomes_total',
      help: 'Refusals, or counts of them, that the books lack because there was no room for them or they were not taken',
      registers,
    }),
    unrecorded: new Counter({
      name: 'keytally_unrecorded_verifications_total',
      help: 'Verifications of unmetered keys that left no event because the outbox was full',
      registers,
    }),
    scriptSeconds: makeTimings({
      name: 'keytally_script_seconds',
      help: 'Time from sending a Redis script to its answer',
      labelNames: ['script'],
      buckets: fastSeconds,
      registers,
    }),
  };
}

/** Usage events in the outbox, the streams of Redis, and the memory that they take. */
function outboxMetrics(registers: Registry[]) {
  return {
    redisMemoryBytes: new Gauge({
      name: 'keytally_redis_memory_bytes',
      help: 'Memory of each Redis server, as it counts it for maxmemory',
      labelNames: ['server'],
      aggregator: 'max',
      registers,
    }),
    redisMemoryLimitBytes: new Gauge({
      name: 'keytally_redis_memory_limit_bytes',
      help: 'The maxmemory of each Redis server that has one',
      labelNames: ['server'],
      aggregator: 'max',
      registers,
    }),
    eventsInHand: new Gauge({
      name: 'keytally_events_in_hand',
      help: 'Usage events that this process has taken, and has not yet delivered and acknowledged',
      registers,
    }),
    outboxEntries: new Gauge({
      name: 'keytally_outbox_entries',
      help: 'Usage events waiting in Redis',
      aggregator: 'max',
      registers,
    }),
    outboxMaxEntries: new Gauge({
      name: 'keytally_outbox_max_entries',
      help: 'OUTBOX_MAX_ENTRIES of a program that has it: while more usage events wait, metered verifications get 503',
      aggregator: 'max',
      registers,
    }),
    outboxAgeSeconds: new Gauge({
      name: 'keytally_outbox_age_seconds',
      help: 'Age of the oldest usage event waiting in Redis',
      aggregator: 'max',
      registers,
    }),
    unreadableEvents: new Counter({
      name: 'keytally_unreadable_events_total',
      help: 'What in outbox entries and Kafka records is not a usage event',
      registers,
    }),
  };
}

/** Usage events in Kafka: what the relay put in, and what the consumer has yet to read. */
function kafkaMetrics(registers: Registry[]) {
  return {
    relayedEvents: new Counter({
      name: 'keytally_relayed_events_total',
      help: 'Usage events that Kafka has acknowledged',
      registers,
    }),
    kafkaLagEvents: new Gauge({
      name: 'keytally_kafka_lag_events',
      help: 'Usage events in Kafka that are not yet in the books, over all partitions',
      registers,
    }),
  };
}

/** The books: what the consumer writes to ClickHouse, and what reconciling finds there. */
function booksMetrics(registers: Registry[]) {
  return {
    consumedEvents: new Counter({
      name: 'keytally_consumed_events_total',
      help: 'Usage events written to the books',
      registers,
    }),
    consumerLagSeconds: new Gauge({
      name: 'keytally_consumer_lag_seconds',
      help: 'Age of the oldest usage event in the batch written last',
      registers,
    }),
    unlikeRecords: new Gauge({
      name: 'keytally_reconcile_differences',
      help: 'Billing records whose balance and books differ, as of their last comparison',
      registers,
    }),
    undecidedRecords: new Gauge({
      name: 'keytally_reconcile_undecided',
      help: 'Billing records whose last comparison found events still on their way, and so said nothing',
      registers,
    }),
    reconcileAgeSeconds: new Gauge({
      name: 'keytally_reconcile_age_seconds',
      help: 'How long ago the last comparison of all billing records with the books began',
      registers,
    }),
    unsettledRecords: new Gauge({
      name: 'keytally_unsettled_records',
      help: 'Billing records whose balances may lack what the books have, and wait to be set from them',
      registers,
    }),
    failingRecords: new Gauge({
      name: 'keytally_unsettled_records_failing',
      help: 'Those among the unsettled billing records that failed when they were last tried',
      registers,
    }),
    lostMicros: new Counter({
      name: 'keytally_lost_microcredits_total',
      help: 'Used micro-credits that were lost with a Redis server, as far as they are known',
      registers,
    }),
    lostEvents: new Counter({
      name: 'keytally_lost_events_total',
      help: 'Usage events that were lost with a Redis server, as far as they are known',
      registers,
    }),
  };
}

/** Settings in Postgres. */
function settingsMetrics(registers: Registry[]) {
  return {
    settingsOlder: new Gauge({
      name: 'keytally_settings_older',
      help: '1 while Postgres is older than what is in force in Redis, because it was restored from a backup',
      registers,
    }),
    periodsNotGranted: new Counter({
      name: 'keytally_periods_not_granted_total',
      help: 'Periods of grant schedules without a grant, since it would have passed 9000000000 credits',
      registers,
    }),
  };
}

/** The audit log: refused attempts on their way into it, and its chain. */
function auditMetrics(registers: Registry[]) {
  return {
    deniedAttempts: new Counter({
      name: 'keytally_denied_attempts_total',
      help: 'Refused attempts on the api by what became of them: logged, unknown_token (no line), over_limit (no line)',
      labelNames: ['kind'],
      registers,
    }),
    auditUnchainedSeconds: new Gauge({
      name: 'keytally_audit_unchained_seconds',
      help: 'How long the oldest line of the audit log has waited to be chained',
      aggregator: 'max',
      registers,
    }),
    auditLogBroken: new Gauge({
      name: 'keytally_audit_log_broken',
      help: '1 while the chain of the audit log lacks the head that Redis keeps: lines were changed or removed',
      aggregator: 'max',
      registers,
    }),
  };
}

/** The consumer's scheduled jobs. */
function jobMetrics(registers: Registry[]) {
  return {
    jobSeconds: new Histogram({
      name: 'keytally_job_seconds',
      help: 'Time a job took, by outcome',
      labelNames: ['job', 'outcome'],
      buckets: jobSeconds,
      registers,
    }),
  };
}

/** Deliveries of events to webhooks. Nothing by webhook or team: there may be any number of them. */
function webhookMetrics(registers: Registry[]) {
  return {
    webhookTries: new Counter({
      name: 'keytally_webhook_tries_total',
      help: 'Tries to deliver an event to a webhook: delivered, refused by its answer, or failed without one',
      labelNames: ['outcome'],
      registers,
    }),
    webhooksGivenUp: new Counter({
      name: 'keytally_webhook_given_up_total',
      help: 'Deliveries that failed for good',
      registers,
    }),
    webhookSeconds: new Histogram({
      name: 'keytally_webhook_try_seconds',
      help: 'Time that a try took',
      buckets: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10],
      registers,
    }),
    webhookDelaySeconds: new Histogram({
      name: 'keytally_webhook_delay_seconds',
      help: 'Time from the cause of an event to its delivery, where the first try delivered it',
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 60, 600],
      registers,
    }),
    webhooksUnderWay: new Gauge({
      name: 'keytally_webhook_under_way',
      help: 'Deliveries that this process is trying now',
      registers,
    }),
    webhooksWaiting: new Gauge({
      name: 'keytally_webhook_waiting',
      help: 'Deliveries that wait for a try, counted up to 100,000',
      aggregator: 'max',
      registers,
    }),
    webhooksFailing: new Gauge({
      name: 'keytally_webhook_failing',
      help: 'Webhooks that are enabled, and to which nothing could be delivered lately',
      aggregator: 'max',
      registers,
    }),
  };
}
