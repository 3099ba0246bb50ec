import type { Kafka } from '../../shared/events/kafka.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { startConsuming, type ConsumeOptions } from './consume.ts';
import { makeKafkaReader } from './kafka-reader.ts';
import { startWatchdog } from './watchdog.ts';

type Options = Omit<ConsumeOptions, 'source'> & {
  kafka: Kafka;
  /** Whether Redis, Postgres and ClickHouse all answer. */
  reachable(): Promise<boolean>;
  watchdogSeconds: number;
  /** Ends the process, because it can't go on reading. */
  end(error: Error): void;
};

/** Carries events from Kafka to the books, and ends the process when that hangs. */
export function consumeKafka({ kafka, reachable, watchdogSeconds, end, ...options }: Options): Running {
  const { metrics, log, clock } = options;
  const source = makeKafkaReader({ kafka, metrics, log, clock, ended: end });
  const consuming = startConsuming({ source, ...options });
  const watchdog = startWatchdog({
    kafka,
    assigned: source.assigned,
    reachable,
    afterMs: watchdogSeconds * 1000,
    metrics,
    log,
    clock,
    stuck: end,
  });
  return {
    async stop() {
      await Promise.all([watchdog.stop(), consuming.stop()]);
      // The source stops after the consumer, whose last batch it still commits.
      await source.stop();
      await kafka.close();
    },
  };
}
