import { connectClickHouse } from '../../shared/clickhouse.ts';
import { programs, readConfig } from '../../shared/config.ts';
import { listen } from '../../shared/listen.ts';
import { makeLogger } from '../../shared/log.ts';
import { makeMetrics } from '../../shared/metrics.ts';
import { outboxSource, perNode } from '../../shared/outbox-source.ts';
import { connectPostgres } from '../../shared/postgres.ts';
import { makeProbes, makeProbeServer } from '../../shared/probes.ts';
import { connectRedis } from '../../shared/redis.ts';
import { run } from '../../shared/run.ts';
import { startConsuming } from './consume.ts';
import { removeExpired } from './expire.ts';
import { startJobs, type Job } from './jobs.ts';
import { makeMarkDays } from './marks.ts';
import { copyRecentUse } from './recent-use.ts';
import { rollUp } from './rollup.ts';

const config = readConfig(...programs.consumer);
const log = makeLogger('consumer', config.LOG_LEVEL);

await run(log, async () => {
  const metrics = makeMetrics('consumer');
  const sql = connectPostgres(config.DATABASE_URL);
  const link = connectRedis(config.REDIS_URL, log, { metrics });
  const books = connectClickHouse(config.CLICKHOUSE_URL);

  const markDays = makeMarkDays(sql);
  const name = config.CONSUMER_NAME;
  const consuming = perNode(link, log, (node, shards) => {
    const source = outboxSource({ node, shards, name, metrics, log });
    return startConsuming({ source, books, markDays, now: link.now, metrics, log });
  });
  const stores = { sql, books };
  const everyTwentySeconds = '*/20 * * * * *';
  const everyMinute = '30 * * * * *';
  const everyHour = '0 17 * * * *';
  const jobs = startJobs(
    [
      { name: 'recent-use', cron: everyTwentySeconds, work: (signal) => copyRecentUse(stores, signal) },
      { name: 'rollup', cron: everyMinute, work: async (signal) => rollUp(stores, await link.now(), signal) },
      { name: 'expire', cron: everyHour, work: (signal) => removeExpired(sql, signal) },
    ] satisfies Job[],
    { sql, metrics, log },
  );

  const probe = makeProbes(metrics, {
    postgres: () => sql`select 1`,
    redis: () => link.now(),
    clickhouse: () => books.ready(),
  });
  const server = await listen(makeProbeServer(probe), config.HOST, config.PORT);
  log.info({ port: server.port }, 'listening');

  return {
    async stop() {
      await Promise.all([consuming.stop(), jobs.stop()]);
      await server.stop();
      await Promise.all([sql.end({ timeout: 5 }), link.close(), books.close()]);
    },
  };
});
