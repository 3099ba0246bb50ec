import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { makeTimings, type Timings } from './timings.ts';

// Every metric of every program: its name, its labels, and what it says. The Grafana dashboard shows each: a test refuses one that
// is not there.

const counters = {
  verifications: 'keytally_verifications_total{status} Verifications by status; UNDECIDED ended in a 503',
  refusals: 'keytally_refusals_total{reason} Refused calls by reason, about a second after they were refused',
  droppedOutcomes:
    'keytally_dropped_outcomes_total Refusals, or counts of them, that the books lack because there was no room for them or they were not taken',
  unrecorded:
    'keytally_unrecorded_verifications_total Verifications of unmetered keys that left no event because the outbox was full',
  unreadableEvents: 'keytally_unreadable_events_total What in outbox entries and Kafka records is not a usage event',
  relayedEvents: 'keytally_relayed_events_total Usage events that Kafka has acknowledged',
  consumedEvents: 'keytally_consumed_events_total Usage events written to the books',
  lostMicros:
    'keytally_lost_microcredits_total Used micro-credits that were lost with a Redis server, as far as they are known',
  lostEvents: 'keytally_lost_events_total Usage events that were lost with a Redis server, as far as they are known',
  periodsNotGranted:
    'keytally_periods_not_granted_total Periods of grant schedules without a grant, since it would have passed 9000000000 credits',
  deniedAttempts:
    'keytally_denied_attempts_total{kind} Refused attempts on the api by what became of them: logged, unknown_token (no line), over_limit (no line)',
  webhookTries:
    'keytally_webhook_tries_total{outcome} Tries to deliver an event to a webhook: delivered, refused by its answer, or failed without one',
  webhooksGivenUp: 'keytally_webhook_given_up_total Deliveries that failed for good',
  meterEvents:
    'keytally_meter_events_total{kind,outcome} Events for external meters by what a try did: sent, failed for good, or put_off',
} as const;

const gauges = {
  eventsInHand:
    'keytally_events_in_hand Usage events that this process has taken, and has not yet delivered and acknowledged',
  kafkaLagEvents: 'keytally_kafka_lag_events Usage events in Kafka that are not yet in the books, over all partitions',
  consumerLagSeconds:
    'keytally_consumer_lag_seconds Age of the oldest usage event in the batch that is being written, or was last',
  unlikeRecords:
    'keytally_reconcile_differences Billing records whose balance and books differ, as of their last comparison',
  undecidedRecords:
    'keytally_reconcile_undecided Billing records whose last comparison found events still on their way, and so said nothing',
  reconcileAgeSeconds:
    'keytally_reconcile_age_seconds How long ago the last comparison of all billing records with the books began',
  unsettledRecords:
    'keytally_unsettled_records Billing records whose balances may lack what the books have, and wait to be set from them',
  failingRecords:
    'keytally_unsettled_records_failing Those among the unsettled billing records that failed when they were last tried',
  settingsOlder:
    'keytally_settings_older 1 while Postgres is older than what is in force in Redis, because it was restored from a backup',
  webhooksUnderWay: 'keytally_webhook_under_way Deliveries that this process is trying now',
} as const;

/** Of several processes of one program, the highest is told. */
const highest = {
  redisMemoryBytes: 'keytally_redis_memory_bytes{server} Memory of each Redis server, as it counts it for maxmemory',
  redisMemoryLimitBytes: 'keytally_redis_memory_limit_bytes{server} The maxmemory of each Redis server that has one',
  openShards: 'keytally_open_shards Shards of Redis that verify finds open, of 64: without any it serves nobody',
  outboxEntries: 'keytally_outbox_entries Usage events waiting in Redis',
  outboxMaxEntries:
    'keytally_outbox_max_entries OUTBOX_MAX_ENTRIES of a program that has it: while more usage events wait, metered verifications get 503',
  outboxAgeSeconds: 'keytally_outbox_age_seconds Age of the oldest usage event waiting in Redis',
  auditUnchainedSeconds:
    'keytally_audit_unchained_seconds How long the oldest line of the audit log has waited to be chained',
  auditLogBroken:
    'keytally_audit_log_broken 1 while the chain of the audit log lacks the head that Redis keeps: lines were changed or removed',
  webhooksWaiting: 'keytally_webhook_waiting Deliveries that wait for a try, counted up to 100,000',
  webhookDueSeconds:
    'keytally_webhook_due_seconds How long the oldest of the waiting deliveries that were counted has been due, without those of slow receivers',
  meterLagSeconds:
    'keytally_meter_lag_seconds{kind} How long the oldest closed hour has waited to be planned or sent, at half of the external meters of a kind',
  webhooksFailing: 'keytally_webhook_failing Webhooks that are enabled, and to which nothing could be delivered lately',
} as const;

const requestSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const timings = {
  httpSeconds: 'keytally_http_request_seconds{method,route,status} Time to answer a request, by route and status',
  scriptSeconds: 'keytally_script_seconds{script} Time from sending a Redis script to its answer',
} as const;

const bounds = {
  jobSeconds: [0.01, 0.1, 1, 10, 60],
  webhookSeconds: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10],
  webhookDelaySeconds: [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 60, 600],
};
const histograms = {
  jobSeconds: 'keytally_job_seconds{job,outcome} Time a job took, by outcome',
  webhookSeconds: 'keytally_webhook_try_seconds Time that a try took',
  webhookDelaySeconds:
    'keytally_webhook_delay_seconds Time from the cause of an event to its delivery, where the first try delivered it',
} as const satisfies Record<keyof typeof bounds, string>;

// By their defaults these two looks took more of an idle program than all that it did besides.
const LAG_LOOK_MS = 1_000;
const UTILIZATION_LOOK_MS = 1_000;

export type Metrics = ReturnType<typeof makeMetrics>;

/** The metrics of one program, labelled with its name. It answers all of them; those that it does not feed stay 0. */
export function makeMetrics(program: string) {
  const registry = new Registry();
  registry.setDefaultLabels({ program });
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: LAG_LOOK_MS,
    eventLoopUtilizationTimeout: UTILIZATION_LOOK_MS,
  });
  tellLagAlone(registry);
  const registers = [registry];
  const made = {
    ...mapped(counters, (one) => new Counter({ ...one, registers })),
    ...mapped(gauges, (one) => new Gauge({ ...one, registers })),
    ...mapped(highest, (one) => new Gauge({ ...one, aggregator: 'max', registers })),
    ...mapped(timings, (one) => makeTimings({ ...one, buckets: requestSeconds, registers })),
    ...mapped(histograms, (one, name) => new Histogram({ ...one, buckets: bounds[name], registers })),
  };
  return { registry, ...(made as unknown as Made) };
}

type Made = { [Name in keyof typeof counters]: Counter<LabelsOf<(typeof counters)[Name]>> } & {
  [Name in keyof typeof gauges]: Gauge<LabelsOf<(typeof gauges)[Name]>>;
} & { [Name in keyof typeof highest]: Gauge<LabelsOf<(typeof highest)[Name]>> } & {
  [Name in keyof typeof timings]: Timings<LabelsOf<(typeof timings)[Name]>>;
} & { [Name in keyof typeof histograms]: Histogram<LabelsOf<(typeof histograms)[Name]>> };

type LabelsOf<Line> = Line extends `${string}{${infer Labels}} ${string}` ? Each<Labels> : never;
type Each<Labels> = Labels extends `${infer First},${infer Others}` ? First | Each<Others> : Labels;

/** Node counts what passes between two looks of its monitor: the lag is what that is longer than it should be. */
function tellLagAlone(registry: Registry): void {
  for (const figure of ['min', 'max', 'mean', 'p50', 'p90', 'p99']) {
    const gauge = registry.getSingleMetric(`nodejs_eventloop_lag_${figure}_seconds`) as Gauge;
    const set = gauge.set.bind(gauge) as unknown as (labels: unknown, seconds: number) => void;
    gauge.set = (labels: unknown, seconds?: number) => set(labels, Math.max(0, seconds! - LAG_LOOK_MS / 1000));
  }
}

function mapped<Name extends string, Metric>(
  lines: Readonly<Record<Name, string>>,
  make: (parts: { name: string; help: string; labelNames: string[] }, of: Name) => Metric,
) {
  return Object.fromEntries(
    Object.entries<string>(lines).map(([of, line]) => {
      const [, name = '', labels, help = ''] = /^(\w+)(?:\{(.+?)\})? (.+)$/.exec(line)!;
      return [of, make({ name, help, labelNames: labels?.split(',') ?? [] }, of as Name)];
    }),
  );
}
