import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { makeTimings } from './timings.ts';

/** Every metric of every program. The Grafana dashboard shows each: a test refuses one that is not there. */
export type Metrics = ReturnType<typeof makeMetrics>;

const fastSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const jobSeconds = [0.01, 0.1, 1, 10, 60];
const trySeconds = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10];
const delaySeconds = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 60, 600];

/** The metrics of one program, labelled with its name. It answers all of them; those that it does not feed stay 0. */
export function makeMetrics(program: string) {
  const registry = new Registry();
  registry.setDefaultLabels({ program });
  collectDefaultMetrics({ register: registry });
  const { counter, gauge, highest, histogram, timings } = kindsIn(registry);
  return {
    registry,
    // HTTP requests, of the api and verify.
    httpSeconds: timings(
      'keytally_http_request_seconds',
      'Time to answer a request, by route and status',
      fastSeconds,
      'method',
      'route',
      'status',
    ),
    // Verifications, and the Redis scripts that every program runs.
    verifications: counter(
      'keytally_verifications_total',
      'Verifications by status; UNDECIDED ended in a 503',
      'status',
    ),
    refusals: counter(
      'keytally_refusals_total',
      'Refused calls by reason, about a second after they were refused',
      'reason',
    ),
    droppedOutcomes: counter(
      'keytally_dropped_outcomes_total',
      'Refusals, or counts of them, that the books lack because there was no room for them or they were not taken',
    ),
    unrecorded: counter(
      'keytally_unrecorded_verifications_total',
      'Verifications of unmetered keys that left no event because the outbox was full',
    ),
    scriptSeconds: timings(
      'keytally_script_seconds',
      'Time from sending a Redis script to its answer',
      fastSeconds,
      'script',
    ),
    // Usage events in the outbox, the streams of Redis, and the memory that they take.
    redisMemoryBytes: highest(
      'keytally_redis_memory_bytes',
      'Memory of each Redis server, as it counts it for maxmemory',
      'server',
    ),
    redisMemoryLimitBytes: highest(
      'keytally_redis_memory_limit_bytes',
      'The maxmemory of each Redis server that has one',
      'server',
    ),
    eventsInHand: gauge(
      'keytally_events_in_hand',
      'Usage events that this process has taken, and has not yet delivered and acknowledged',
    ),
    outboxEntries: highest('keytally_outbox_entries', 'Usage events waiting in Redis'),
    outboxMaxEntries: highest(
      'keytally_outbox_max_entries',
      'OUTBOX_MAX_ENTRIES of a program that has it: while more usage events wait, metered verifications get 503',
    ),
    outboxAgeSeconds: highest('keytally_outbox_age_seconds', 'Age of the oldest usage event waiting in Redis'),
    unreadableEvents: counter(
      'keytally_unreadable_events_total',
      'What in outbox entries and Kafka records is not a usage event',
    ),
    // Usage events in Kafka: what the relay put in, and what the consumer has yet to read.
    relayedEvents: counter('keytally_relayed_events_total', 'Usage events that Kafka has acknowledged'),
    kafkaLagEvents: gauge(
      'keytally_kafka_lag_events',
      'Usage events in Kafka that are not yet in the books, over all partitions',
    ),
    // The books: what the consumer writes to ClickHouse, and what reconciling finds there.
    consumedEvents: counter('keytally_consumed_events_total', 'Usage events written to the books'),
    consumerLagSeconds: gauge(
      'keytally_consumer_lag_seconds',
      'Age of the oldest usage event in the batch written last',
    ),
    unlikeRecords: gauge(
      'keytally_reconcile_differences',
      'Billing records whose balance and books differ, as of their last comparison',
    ),
    undecidedRecords: gauge(
      'keytally_reconcile_undecided',
      'Billing records whose last comparison found events still on their way, and so said nothing',
    ),
    reconcileAgeSeconds: gauge(
      'keytally_reconcile_age_seconds',
      'How long ago the last comparison of all billing records with the books began',
    ),
    unsettledRecords: gauge(
      'keytally_unsettled_records',
      'Billing records whose balances may lack what the books have, and wait to be set from them',
    ),
    failingRecords: gauge(
      'keytally_unsettled_records_failing',
      'Those among the unsettled billing records that failed when they were last tried',
    ),
    lostMicros: counter(
      'keytally_lost_microcredits_total',
      'Used micro-credits that were lost with a Redis server, as far as they are known',
    ),
    lostEvents: counter(
      'keytally_lost_events_total',
      'Usage events that were lost with a Redis server, as far as they are known',
    ),
    // Settings in Postgres.
    settingsOlder: gauge(
      'keytally_settings_older',
      '1 while Postgres is older than what is in force in Redis, because it was restored from a backup',
    ),
    periodsNotGranted: counter(
      'keytally_periods_not_granted_total',
      'Periods of grant schedules without a grant, since it would have passed 9000000000 credits',
    ),
    // The audit log: refused attempts on their way into it, and its chain.
    deniedAttempts: counter(
      'keytally_denied_attempts_total',
      'Refused attempts on the api by what became of them: logged, unknown_token (no line), over_limit (no line)',
      'kind',
    ),
    auditUnchainedSeconds: highest(
      'keytally_audit_unchained_seconds',
      'How long the oldest line of the audit log has waited to be chained',
    ),
    auditLogBroken: highest(
      'keytally_audit_log_broken',
      '1 while the chain of the audit log lacks the head that Redis keeps: lines were changed or removed',
    ),
    // The consumer's scheduled jobs.
    jobSeconds: histogram('keytally_job_seconds', 'Time a job took, by outcome', jobSeconds, 'job', 'outcome'),
    // Deliveries of events to webhooks. Nothing by webhook or team: there may be any number of them.
    webhookTries: counter(
      'keytally_webhook_tries_total',
      'Tries to deliver an event to a webhook: delivered, refused by its answer, or failed without one',
      'outcome',
    ),
    webhooksGivenUp: counter('keytally_webhook_given_up_total', 'Deliveries that failed for good'),
    webhookSeconds: histogram('keytally_webhook_try_seconds', 'Time that a try took', trySeconds),
    webhookDelaySeconds: histogram(
      'keytally_webhook_delay_seconds',
      'Time from the cause of an event to its delivery, where the first try delivered it',
      delaySeconds,
    ),
    webhooksUnderWay: gauge('keytally_webhook_under_way', 'Deliveries that this process is trying now'),
    webhooksWaiting: highest('keytally_webhook_waiting', 'Deliveries that wait for a try, counted up to 100,000'),
    webhooksFailing: highest(
      'keytally_webhook_failing',
      'Webhooks that are enabled, and to which nothing could be delivered lately',
    ),
  };
}

/** Makes metrics: their name, what they say, the bounds of a histogram, and their labels. */
function kindsIn(registry: Registry) {
  const registers = [registry];
  return {
    counter: <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
      new Gauge({ name, help, labelNames, registers }),
    /** A gauge of which the workers of one program answer the highest. */
    highest: <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
      new Gauge({ name, help, labelNames, aggregator: 'max', registers }),
    histogram: <Label extends string>(name: string, help: string, buckets: number[], ...labelNames: Label[]) =>
      new Histogram({ name, help, labelNames, buckets, registers }),
    timings: <Label extends string>(name: string, help: string, buckets: number[], ...labelNames: Label[]) =>
      makeTimings({ name, help, labelNames, buckets, registers }),
  };
}
