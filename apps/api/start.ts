import type { Clock } from '../../shared/runtime/clock.ts';
import { makeAuthenticate, tokensFromRedis, type Authenticate } from '../../shared/auth/access-token.ts';
import { makeClientAddress } from '../../shared/http/client-address.ts';
import { connectClickHouse, EXPORT_LIMITS, REQUEST_LIMITS } from '../../shared/stores/clickhouse.ts';
import type { programs } from '../../shared/runtime/programs.ts';
import { limitFailures } from '../../shared/auth/failed-authentications.ts';
import { limitTeams, makeTeamRate } from '../../shared/auth/team-rates.ts';
import { requireOpen } from '../../shared/stores/fence.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { watchOutbox } from '../../shared/events/outbox-watch.ts';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { logFailures } from '../../shared/http/log-failures.ts';
import { makeProbes } from '../../shared/http/probes.ts';
import { startTelemetry } from '../../shared/runtime/telemetry.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import type { MasterKeys } from '../../shared/values/seal.ts';
import { webhookSealer } from '../../shared/values/webhook-secret.ts';
import { serve, type Served } from '../../shared/http/serve.ts';
import { makeVerifyBatch } from '../../shared/verification/batch.ts';
import { makeHoldCalls } from '../../shared/verification/hold-calls.ts';
import { makeHoldKeys } from '../../shared/verification/hold-keys.ts';
import { startOutcomes } from '../../shared/verification/outcomes.ts';
import { makeVerifier } from '../../shared/verification/verifier.ts';
import { noteTokenUses } from '../../shared/auth/token-uses.ts';
import { keepWitnesses } from '../../shared/verification/witnesses.ts';
import { startChainer } from './audit/chainer.ts';
import { logDeniedAttempts } from './audit/denied-attempts.ts';
import { headersFor, isOverTls } from '../../shared/http/headers.ts';
import { makeApp } from './http/app.ts';
import { tokensFromPostgres } from './resources/access/access.ts';
import { linksFromPostgres, portalsFromPostgres } from './resources/access/portals.ts';
import { sessionsFromPostgres } from './resources/access/sessions.ts';
import { makeSessionCookies } from './http/session-cookie.ts';
import { makeSendExport } from './http/exports.ts';
import { makeFairTurns } from './http/fair-turns.ts';
import { limitCalls } from './http/limit-calls.ts';
import { startSettler } from '../../shared/books/settling/settler.ts';
import { watchStalePostgres } from './sync/stale-postgres.ts';
import { startNotingBehind } from './reopen/note-behind.ts';
import { keepShardsOpen } from './reopen/reopen.ts';
import { portalRoutes, routes, sessionRoutes } from './routes/index.ts';
import { quotasOf } from './resources/quotas.ts';
import { startRevoking } from './resources/revocations/job.ts';
import { startScheduling } from './resources/grants/schedule-job.ts';
import { resealSigningKeys } from './resources/jwts/reseal-signing-keys.ts';
import { resealWebhookSecrets } from './resources/reseal-webhook-secrets.ts';
import { makeKeySets } from './resources/jwts/key-sets.ts';
import { makeSigningKeys } from './resources/jwts/signing-keys.ts';
import { startRemovingDeleted } from './sync/remove-deleted.ts';
import { startWritingHoldKeys } from './sync/hold-keys.ts';
import { startSweeper } from './sync/sweeper.ts';
import type { Config } from '../../shared/runtime/variables.ts';

// ClickHouse says nothing while it makes an export, for at most 10 minutes.
const EXPORTED_WITHIN_MS = 660_000;

type ApiConfig = Pick<Config, (typeof programs.api)[number]>;

/** Starts the program. */
export async function startApi(config: ApiConfig, log: Logger, clock: Clock, random: () => number): Promise<Served> {
  const metrics = makeMetrics('api');
  const telemetry = await startTelemetry('api', config, metrics, log);
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
  const limits = { maxEntries: config.OUTBOX_MAX_ENTRIES, maxMemoryPercent: config.OUTBOX_MAX_MEMORY_PERCENT };
  const outbox = watchOutbox(redis, limits, metrics, log);
  const stalePostgres = watchStalePostgres(metrics, log);
  const witnesses = keepWitnesses(redis, log);
  const uses = noteTokenUses(redis, log);
  const { MASTER_KEY, MASTER_KEY_PREVIOUS } = config;
  const masterKeys: MasterKeys = MASTER_KEY_PREVIOUS ? [MASTER_KEY, MASTER_KEY_PREVIOUS] : [MASTER_KEY];
  const deniedAttempts = logDeniedAttempts(sql, teamSql, metrics, log, clock);
  const outcomes = startOutcomes({ redis, hasSpareRoom: outbox.hasSpareRoom, metrics, log, random });
  const holdKeysWriting = startWritingHoldKeys(redis, masterKeys, log);
  const background = [
    outbox,
    outcomes,
    witnesses,
    uses,
    keepShardsOpen({ sql, redis, books, stalePostgres, log, random, onOpened: holdKeysWriting.soon }),
    startNotingBehind({ sql, redis, books, log }),
    startSettler({ sql, redis, books, metrics, log }),
    startSweeper(sql, redis, stalePostgres, log),
    startRemovingDeleted(sql, redis, log),
    startRevoking(sql, redis, log),
    holdKeysWriting,
    startScheduling({ sql, redis, metrics, log }),
    resealSigningKeys(sql, masterKeys, log, clock),
    resealWebhookSecrets(sql, masterKeys, log, clock),
    startChainer({ sql, redis, masterKeys, metrics, log }),
    deniedAttempts,
  ];

  const postgres = () => sql`select 1`;
  const probe = makeProbes(
    metrics,
    clock,
    {
      postgres,
      redis: async () => {
        outbox.requireLook();
        await requireOpen(redis, 1_000);
      },
      clickhouse: () => books.ready(),
      // Not ready while Postgres is older than Redis.
      settings: async () => stalePostgres.refuse(),
    },
    // Without the others it still reads what Postgres has.
    { toServe: { postgres } },
  );
  const holdKeys = makeHoldKeys(redis, config.VERIFY_DEADLINE_MS);
  const outboxFull = outbox.full;
  const { verify } = makeVerifier({
    redis,
    holdKeys,
    outboxFull,
    requireMemory: outbox.requireMemory,
    witness: witnesses.remember,
    noteOutcome: outcomes.note,
    config,
    metrics,
    telemetry,
  });
  const countVerification = makeTeamRate(quotas.verify_per_second, clock);
  const countApiCall = makeTeamRate(quotas.api_per_second, clock);
  const limited = (authenticate: Authenticate) => limitFailures(authenticate, redis, config.FAILED_AUTH_PER_MINUTE);
  const app = makeApp({
    routes: [...routes, ...portalRoutes],
    sessionRoutes,
    handling: {
      services: {
        clock,
        redis,
        books: booksForRequests,
        exports: { books: booksForExports, mostBytes: config.EXPORT_MAX_BYTES },
        signingKeys: makeSigningKeys(masterKeys),
        keySets: makeKeySets(sql, log, clock),
        webhooks: { allowedTargets: config.WEBHOOK_ALLOWED_TARGETS, sealer: webhookSealer(masterKeys) },
        publicUrl: config.PUBLIC_API_URL,
        verify,
        holds: makeHoldCalls({ redis, holdKeys, outboxFull, config, telemetry }),
        verifyBatch: makeVerifyBatch({
          verify,
          countCall: countVerification,
          logFailure: logFailures(log, clock),
          clock,
        }),
        quotas,
        sessionCookies: makeSessionCookies(isOverTls(config), 'keytally'),
        portalCookies: makeSessionCookies(isOverTls(config), 'keytally-portal'),
      },
      deadlineMs: config.REQUEST_DEADLINE_MS,
      sql,
      teamSql,
      authenticate: limitTeams(limited(makeAuthenticate(tokensFromPostgres(sql), uses.note, clock)), countApiCall),
      authenticateSession: limitTeams(limited(sessionsFromPostgres(sql, uses.note, clock)), countApiCall),
      authenticatePortal: limitTeams(limited(portalsFromPostgres(sql, clock)), countApiCall),
      authenticateLink: limitTeams(limited(linksFromPostgres(sql)), countApiCall),
      // A verification must not wait for Postgres, neither here nor on the verify app.
      authenticateForVerify: limitTeams(
        limited(makeAuthenticate(tokensFromRedis(redis, config.VERIFY_DEADLINE_MS), uses.note, clock)),
        countVerification,
      ),
      limitCalls: limitCalls(config.CALLS_PER_SECOND, clock),
      turns: makeFairTurns(),
      sendExport: makeSendExport(),
      clientAddress: makeClientAddress(config.TRUSTED_PROXIES),
      deniedAttempts,
      stalePostgres,
      requireMemory: outbox.requireMemory,
      masterKeys,
      telemetry,
      log,
    },
    probe,
    opsPort: config.OPS_PORT,
    headers: headersFor(config),
    metrics,
    log,
    publicUrl: config.PUBLIC_API_URL,
    verifyUrl: config.PUBLIC_VERIFY_URL,
    corsOrigins: config.CORS_ORIGINS,
  });
  const server = await serve(app.callback(), probe, config, { headersMs: 10_000, requestMs: 15_000 }, log);

  return {
    ...server,
    async stop() {
      await server.stop();
      await Promise.all(background.map((one) => one.stop()));
      await Promise.all([sql.end({ timeout: 5 }), teamSql.end({ timeout: 5 }), redis.close()]);
      await Promise.all([books.close(), booksForRequests.close(), booksForExports.close()]);
      await telemetry.stop();
    },
  };
}
