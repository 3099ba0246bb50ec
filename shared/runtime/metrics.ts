import {
  collectDefaultMetrics,
  Counter,
  Gauge,
  Histogram,
  Registry,
  type HistogramConfiguration,
  type LabelValues,
} from '@prometheus-io/client';

/** Takes seconds under labels. */
type Timings<L extends string> = { observe(labels: LabelValues<L>, seconds: number): void };

/** Every metric of every program, in one place; a program that does not feed one leaves it out of its answer. */
export type Metrics = ReturnType<typeof makeMetrics>;

/** Metrics of one program, labelled with its name. */
export function makeMetrics(program: string) {
  const registry = new Registry();
  registry.setDefaultLabels({ program });
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const fast = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
  return {
    registry,
    httpSeconds: makeTimings({
      name: 'keytally_http_request_seconds',
      help: 'Time to answer a request, by route and status',
      labelNames: ['method', 'route', 'status'],
      buckets: fast,
      registers,
    }),
    verifications: new Counter({
      name: 'keytally_verifications_total',
      help: 'Verifications by status; UNDECIDED ended in a 503',
      labelNames: ['status'],
      registers,
    }),
    scriptSeconds: makeTimings({
      name: 'keytally_script_seconds',
      help: 'Time from sending a Redis script to its answer',
      labelNames: ['script'],
      buckets: fast,
      registers,
    }),
    outboxEntries: new Gauge({ name: 'keytally_outbox_entries', help: 'Usage events waiting in Redis', registers }),
    outboxAgeSeconds: new Gauge({
      name: 'keytally_outbox_age_seconds',
      help: 'Age of the oldest waiting usage event',
      registers,
    }),
    unrecorded: new Counter({
      name: 'keytally_unrecorded_verifications_total',
      help: 'Verifications of unmetered keys that left no event because the outbox was full',
      registers,
    }),
    relayedEvents: new Counter({
      name: 'keytally_relayed_events_total',
      help: 'Usage events that Kafka has acknowledged',
      registers,
    }),
    kafkaLagEvents: new Gauge({
      name: 'keytally_kafka_lag_events',
      help: 'Usage events in Kafka that are not yet in the books, of all partitions',
      registers,
    }),
    consumedEvents: new Counter({
      name: 'keytally_consumed_events_total',
      help: 'Usage events written to the books',
      registers,
    }),
    consumerLagSeconds: new Gauge({
      name: 'keytally_consumer_lag_seconds',
      help: 'Age of the oldest event in the batch written last',
      registers,
    }),
    unreadableEvents: new Counter({
      name: 'keytally_unreadable_events_total',
      help: 'Outbox entries and records of Kafka that are no event',
      registers,
    }),
    settingsOlder: new Gauge({
      name: 'keytally_settings_older',
      help: '1 while Postgres is older than what is in force in Redis: it was restored from a backup',
      registers,
    }),
    unlikeRecords: new Gauge({
      name: 'keytally_reconcile_differences',
      help: 'Billing records whose balance and books differ, as found last',
      registers,
    }),
    undecidedRecords: new Gauge({
      name: 'keytally_reconcile_undecided',
      help: 'Billing records whose events were on their way for too long to tell, as found last',
      registers,
    }),
    lostMicros: new Counter({
      name: 'keytally_lost_microcredits_total',
      help: 'Used micro-credits that went down with a Redis, as far as they are known',
      registers,
    }),
    lostEvents: new Counter({
      name: 'keytally_lost_events_total',
      help: 'Usage events that went down with a Redis, as far as they are known',
      registers,
    }),
    jobSeconds: new Histogram({
      name: 'keytally_job_seconds',
      help: 'Time a job took, by outcome',
      labelNames: ['job', 'outcome'],
      buckets: [0.01, 0.1, 1, 10, 60],
      registers,
    }),
  };
}

const MOST_WAITING = 256;

// A histogram that counts in what it was given when it is asked, or many at once: at the end of a lone request its code
// is out of the processor's caches, and costs many times what it costs in a row.
function makeTimings<L extends string>(config: HistogramConfiguration<L>): Timings<L> {
  const waiting: Parameters<Timings<L>['observe']>[] = [];
  const histogram = new Histogram<L>({ ...config, collect: countIn });

  function countIn(): void {
    for (const [labels, seconds] of waiting) histogram.observe(labels, seconds);
    waiting.length = 0;
  }

  return {
    observe(labels, seconds) {
      if (waiting.push([labels, seconds]) === MOST_WAITING) countIn();
    },
  };
}
