import { connectClickHouse, EXPORT_LIMITS, REQUEST_LIMITS } from '../../shared/stores/clickhouse.ts';
import { requireOpen } from '../../shared/stores/fence.ts';
import type { Whole } from '../../shared/runtime/run.ts';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { makeProbes } from '../../shared/http/probes.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { serve, type Served } from '../../shared/http/serve.ts';
import { makeApp } from './http/app.ts';
import { portalRoutes, routes, signedRoutes, sessionRoutes } from './routes/index.ts';
import { testClockRoutes } from './routes/test-clock/test-clock.ts';
import { quotasOf } from './resources/quotas.ts';
import { composeApi, type ApiConfig } from './compose.ts';

// ClickHouse says nothing while it makes an export, for at most 10 minutes.
const EXPORTED_WITHIN_MS = 660_000;

/** Starts the program. */
export async function startApi(config: ApiConfig, whole: Whole): Promise<Served> {
  const { metrics, log, clock } = whole;
  const sql = connectPostgres(config.DATABASE_URL, { everyTeam: true });
  const quotas = quotasOf(config);
  const teamSql = connectPostgres(config.DATABASE_URL, { quotas: JSON.stringify(quotas) });
  const redis = connectRedis(config.REDIS_URL, log, clock, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  const books = connectClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER);
  const booksForRequests = connectClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER, REQUEST_LIMITS);
  const booksForExports = connectClickHouse(
    config.CLICKHOUSE_URL,
    config.CLICKHOUSE_CLUSTER,
    EXPORT_LIMITS,
    EXPORTED_WITHIN_MS,
  );
  const stores = { sql, teamSql, redis, books, booksForRequests, booksForExports };
  const { handling, requireLook, stop } = composeApi(stores, config, whole);

  const postgres = () => sql`select 1`;
  const probe = makeProbes(
    metrics,
    clock,
    {
      postgres,
      redis: async () => {
        requireLook();
        await requireOpen(redis, 1_000);
      },
      clickhouse: () => books.ready(),
      // Not ready while Postgres is older than Redis.
      settings: async () => handling.stalePostgres.refuse(),
    },
    // Without the others it still reads what Postgres has.
    { toServe: { postgres } },
  );
  const undocumented = [...sessionRoutes, ...(config.TEST_CLOCK_FILE ? testClockRoutes(config.TEST_CLOCK_FILE) : [])];
  const app = makeApp({
    routes: [...routes, ...portalRoutes, ...signedRoutes],
    undocumented,
    handling,
    probe,
    config,
    metrics,
  });
  const server = await serve(app.callback(), probe, config, { headersMs: 10_000, requestMs: 15_000 }, log);

  return {
    ...server,
    async stop() {
      await server.stop();
      await stop();
      await Promise.all([sql.end({ timeout: 5 }), teamSql.end({ timeout: 5 }), redis.close()]);
      await Promise.all([books.close(), booksForRequests.close(), booksForExports.close()]);
    },
  };
}
