import '../../shared/runtime/require-node.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { readConfig } from '../../shared/runtime/config.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { connectKafka } from '../../shared/events/kafka.ts';
import { trackWatermark } from '../../shared/events/watermark.ts';
import { listen } from '../../shared/http/listen.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { outboxSource, perNode } from '../../shared/events/outbox-reader.ts';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { allReady, makeProbes, makeProbeServer, type Checks } from '../../shared/http/probes.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { run, type Running } from '../../shared/runtime/run.ts';
import { consumeKafka } from './consume-kafka.ts';
import { startConsuming } from './consume.ts';
import { removeExpired } from './jobs/expire.ts';
import { startJobs, type Job } from './jobs/jobs.ts';
import { makeSettleLateEvents } from './settle-late-events.ts';
import { makeMarkChangedDays } from './changed-days.ts';
import { reconcileAll, reconcileLost } from './jobs/reconcile.ts';
import { copyRecentUse } from './jobs/recent-use.ts';
import { rollUp } from './jobs/rollup.ts';
import { copyTokenUses } from './jobs/token-uses.ts';

const config = readConfig(...programs.consumer);
const log = makeLogger('consumer', config.LOG_LEVEL);
const usesKafka = config.BUS === 'kafka' || config.KAFKA_BROKERS.length > 0;

await run(log, async () => {
  const metrics = makeMetrics('consumer');
  const sql = connectPostgres(config.DATABASE_URL);
  const redis = connectRedis(config.REDIS_URL, log, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  const books = connectClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER);

  const stores = { sql, books };
  const settleLateEvents = makeSettleLateEvents({ sql, redis, books, log });
  const parts = { books, markChangedDays: makeMarkChangedDays(sql), settleLateEvents, now: redis.now, metrics, log };
  const consuming: Running[] = [];
  if (config.BUS === 'redis') {
    const name = config.CONSUMER_NAME;
    consuming.push(
      perNode(redis, log, (node, shards) =>
        startConsuming({ ...parts, source: outboxSource({ node, shards, name, metrics, log }), now: node.now }),
      ),
    );
  }
  // Also where it is not the bus any more: it may hold events of before.
  const kafka = usesKafka ? connectKafka(config, 'consumer', log) : undefined;
  const checks: Checks = {
    postgres: () => sql`select 1`,
    redis: () => redis.now(),
    clickhouse: () => books.ready(),
  };
  if (kafka) {
    const reachable = () => allReady(checks);
    const watchdogSeconds = config.KAFKA_WATCHDOG_SECONDS;
    consuming.push(consumeKafka({ kafka, reachable, watchdogSeconds, end, ...parts }));
  }
  const reaching = trackWatermark({ sql, redis, kafka, log });
  const everyTwentySeconds = '*/20 * * * * *';
  const everyMinute = '30 * * * * *';
  const everyMinuteToo = '50 * * * * *';
  const everyHour = '0 17 * * * *';
  const jobs = startJobs(
    [
      { name: 'recent-use', cron: everyTwentySeconds, work: (signal) => copyRecentUse(stores, signal) },
      { name: 'token-uses', cron: everyTwentySeconds, work: () => copyTokenUses(sql, redis) },
      { name: 'rollup', cron: everyMinute, work: async (signal) => rollUp(stores, await redis.now(), signal) },
      {
        name: 'losses',
        cron: everyMinuteToo,
        work: (signal) => reconcileLost({ ...stores, redis }, metrics, log, signal),
      },
      {
        name: 'reconcile',
        cron: '0 47 * * * *',
        work: (signal) => reconcileAll({ ...stores, redis }, metrics, log, signal),
      },
      { name: 'expire', cron: everyHour, work: (signal) => removeExpired(sql, signal) },
    ] satisfies Job[],
    { connect: () => connectPostgres(config.DATABASE_URL, { max: 1 }), metrics, log },
  );

  const probe = makeProbes(metrics, { ...checks, ...(kafka && config.BUS === 'kafka' && { kafka: kafka.ready }) });
  const server = await listen(makeProbeServer(probe), { host: config.HOST, port: config.PORT });
  log.info({ port: server.port }, 'listening');

  return {
    async stop() {
      await Promise.all([...consuming.map((one) => one.stop()), reaching.stop(), jobs.stop()]);
      await server.stop();
      await Promise.all([sql.end({ timeout: 5 }), redis.close(), books.close()]);
    },
  };
});

// Whoever watches over this process starts a fresh one.
function end(error: Error): void {
  log.fatal({ error }, 'reading Kafka can not go on in this process');
  process.exit(1);
}
