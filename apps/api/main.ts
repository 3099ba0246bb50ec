import '../../shared/runtime/require-node.ts';
import { makeAuthenticate, tokensFromRedis, type Authenticate } from '../../shared/auth/access-token.ts';
import { makeClientAddress } from '../../shared/http/client-address.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { readConfigOrExit } from '../../shared/runtime/config.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { limitFailures } from '../../shared/auth/failed-authentications.ts';
import { requireOpen } from '../../shared/stores/fence.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { watchOutbox } from '../../shared/events/outbox-watch.ts';
import { connectPostgres, isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { makeProbes } from '../../shared/http/probes.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { run } from '../../shared/runtime/run.ts';
import type { MasterKeys } from '../../shared/values/seal.ts';
import { serve } from '../../shared/http/serve.ts';
import { makeVerifier } from '../../shared/verification/verifier.ts';
import { noteTokenUses } from '../../shared/auth/token-uses.ts';
import { keepWitnesses } from '../../shared/verification/witnesses.ts';
import { headersFor } from '../../shared/http/headers.ts';
import { makeApp } from './http/app.ts';
import { tokensFromPostgres } from './resources/access.ts';
import { limitCalls } from './http/limit-calls.ts';
import { startSettler } from '../../shared/books/settler.ts';
import { watchStalePostgres } from './sync/stale-postgres.ts';
import { startNotingBehind } from './reopen/note-behind.ts';
import { keepShardsOpen } from './reopen/reopen.ts';
import { routes } from './routes/index.ts';
import { resealSigningKeys } from './resources/reseal-signing-keys.ts';
import { makeSigningKeys } from './resources/signing-keys.ts';
import { startRemovingDeleted } from './sync/remove-deleted.ts';
import { startSweeper } from './sync/sweeper.ts';

const config = readConfigOrExit(...programs.api);
const log = makeLogger('api', config.LOG_LEVEL);

await run({ log, isHarmless: isPostgresConnectionError }, async () => {
  const metrics = makeMetrics('api');
  const sql = connectPostgres(config.DATABASE_URL, { everyTeam: true });
  const teamSql = connectPostgres(config.DATABASE_URL);
  const redis = connectRedis(config.REDIS_URL, log, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  const books = connectClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_CLUSTER);
  const limits = { maxEntries: config.OUTBOX_MAX_ENTRIES, maxMemoryPercent: config.OUTBOX_MAX_MEMORY_PERCENT };
  const outbox = watchOutbox(redis, limits, metrics, log);
  const stalePostgres = watchStalePostgres(metrics, log);
  const witnesses = keepWitnesses(redis, log);
  const uses = noteTokenUses(redis, log);
  const { MASTER_KEY, MASTER_KEY_PREVIOUS } = config;
  const masterKeys: MasterKeys = MASTER_KEY_PREVIOUS ? [MASTER_KEY, MASTER_KEY_PREVIOUS] : [MASTER_KEY];
  const background = [
    outbox,
    witnesses,
    uses,
    keepShardsOpen({ sql, redis, books, stalePostgres, log }),
    startNotingBehind({ sql, redis, books, log }),
    startSettler({ sql, redis, books, metrics, log }),
    startSweeper(sql, redis, stalePostgres, log),
    startRemovingDeleted(sql, redis, log),
    resealSigningKeys(sql, masterKeys, log),
  ];

  const probe = makeProbes(metrics, {
    postgres: () => sql`select 1`,
    redis: () => requireOpen(redis, 1_000),
    clickhouse: () => books.ready(),
    // Not ready while Postgres is older than Redis.
    settings: async () => stalePostgres.refuse(),
  });
  const limited = (authenticate: Authenticate) => limitFailures(authenticate, redis, config.FAILED_AUTH_PER_MINUTE);
  const app = makeApp({
    routes,
    handling: {
      services: {
        redis,
        books,
        signingKeys: makeSigningKeys(masterKeys),
        verify: makeVerifier({ redis, outboxFull: outbox.full, witness: witnesses.remember, config, metrics }).verify,
        deadlineMs: config.REQUEST_DEADLINE_MS,
      },
      sql,
      teamSql,
      authenticate: limited(makeAuthenticate(tokensFromPostgres(sql), uses.note)),
      // A verification must not wait for Postgres, neither here nor on the verify app.
      authenticateForVerify: limited(makeAuthenticate(tokensFromRedis(redis, config.VERIFY_DEADLINE_MS), uses.note)),
      limitCalls: limitCalls(config.CALLS_PER_SECOND),
      clientAddress: makeClientAddress(config.TRUSTED_PROXIES),
      stalePostgres,
      requireMemory: outbox.requireMemory,
      masterKeys,
      log,
    },
    probe,
    opsPort: config.OPS_PORT,
    headers: headersFor(config),
    metrics,
    log,
    publicUrl: config.PUBLIC_API_URL,
    corsOrigins: config.CORS_ORIGINS,
  });
  const server = await serve(app.callback(), probe, config, { headersMs: 10_000, requestMs: 15_000 }, log);

  return {
    async stop() {
      await server.stop();
      await Promise.all(background.map((one) => one.stop()));
      await Promise.all([sql.end({ timeout: 5 }), teamSql.end({ timeout: 5 }), redis.close(), books.close()]);
    },
  };
});
