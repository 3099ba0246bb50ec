import type { Kafka } from '../../shared/events/kafka.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { startConsuming, type ConsumeOptions } from './consume.ts';
import { kafkaSource } from './kafka-source.ts';
import { startWatchdog } from './watchdog.ts';

type Options = Omit<ConsumeOptions, 'source'> & {
  kafka: Kafka;
  /** Whether all stores that are written to answer. */
  reachable(): Promise<boolean>;
  watchdogSeconds: number;
  /** Ends the process: reading can't go on in it. */
  end(error: Error): void;
};

/** Carries events from Kafka to the books, and sees to it that this never comes to a standstill unnoticed. */
export function consumeKafka({ kafka, reachable, watchdogSeconds, end, ...parts }: Options): Running {
  const { metrics, log } = parts;
  const source = kafkaSource({ kafka, metrics, log, ended: end });
  const consuming = startConsuming({ source, ...parts });
  const { assigned } = source;
  const watchdog = startWatchdog({
    kafka,
    assigned,
    reachable,
    afterMs: watchdogSeconds * 1000,
    metrics,
    log,
    stuck: end,
  });
  return {
    async stop() {
      await Promise.all([watchdog.stop(), consuming.stop()]);
      // After the last commit, which it still makes.
      await source.stop();
      await kafka.close();
    },
  };
}
