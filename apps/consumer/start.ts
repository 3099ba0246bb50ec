import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { connectKafka } from '../../shared/events/kafka.ts';
import type { Whole } from '../../shared/runtime/run.ts';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { allReady, makeProbes, type Checks } from '../../shared/http/probes.ts';
import { serveProbes, type Served } from '../../shared/http/serve.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { startConsuming } from './consume.ts';
import { schedules } from './jobs/schedules.ts';
import { startJobs } from './jobs/start-jobs.ts';
import { composeConsumer, type ConsumerConfig } from './compose.ts';
import { makeKafkaReader } from './kafka-reader.ts';
import { startWatchdog } from './watchdog.ts';

/** Starts the program. `end` is called where Kafka is read no further: only a new process can go on. */
export async function startConsumer(
  config: ConsumerConfig,
  whole: Whole,
  end: (error: Error) => void,
): Promise<Served> {
  const { metrics, log, clock } = whole;
  const sql = connectPostgres(config.DATABASE_URL);
  const redis = connectRedis(config.REDIS_URL, log, clock, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  const books = connectClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER);
  // Kafka is read wherever it is configured: after a change of BUS it may still hold events.
  const usesKafka = config.BUS === 'kafka' || config.KAFKA_BROKERS.length > 0;
  const kafka = usesKafka ? connectKafka(config, 'consumer', log) : undefined;
  const checks: Checks = {
    postgres: () => sql`select 1`,
    redis: () => redis.now(),
    clickhouse: () => books.ready(),
  };

  const parts = { ...whole, sql, redis, books, kafka };
  const { delivering, running } = composeConsumer(parts, config);
  if (kafka) {
    const source = makeKafkaReader({ ...whole, kafka });
    const consuming = startConsuming({ ...delivering, source });
    const reachable = () => allReady(clock, checks);
    const afterMs = config.KAFKA_WATCHDOG_SECONDS * 1000;
    const watchdog = startWatchdog({ ...whole, kafka, assigned: source.assigned, reachable, afterMs, stuck: end });
    running.push({
      async stop() {
        await Promise.all([watchdog.stop(), consuming.stop()]);
        // The source stops after the consumer, whose last batch it still commits.
        await source.stop();
        await kafka.close();
      },
    });
  }
  const jobs = schedules({ sql, redis, books }, metrics, log);
  const jobsSql = connectPostgres(config.DATABASE_URL, { max: jobs.length });
  running.push(startJobs(jobs, { ...whole, sql: jobsSql }));

  const probe = makeProbes(metrics, clock, {
    ...checks,
    ...(kafka && config.BUS === 'kafka' && { kafka: kafka.ready }),
  });
  const server = await serveProbes(probe, config, log);

  return {
    ...server,
    async stop() {
      await Promise.all(running.map((one) => one.stop()));
      await server.stop();
      await Promise.all([sql.end({ timeout: 5 }), jobsSql.end({ timeout: 5 }), redis.close(), books.close()]);
    },
  };
}
