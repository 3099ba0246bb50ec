import type { Whole } from '../../shared/runtime/run.ts';
import { makeAuthenticate, tokensFromRedis } from '../../shared/auth/access-token.ts';
import { ApiError } from '../../shared/contract/errors.ts';
import { makeClientAddress } from '../../shared/http/client-address.ts';
import type { Caller } from '../../shared/contract/caller.ts';
import type { programs } from '../../shared/runtime/programs.ts';
import { limitFailures, limitTeams, makeTeamRate } from '../../shared/auth/failed-authentications.ts';
import { startLoop } from '../../shared/runtime/loop.ts';
import { logFailures } from '../../shared/http/log-failures.ts';
import type { MasterKeys } from '../../shared/values/seal.ts';
import { webhookSealer } from '../../shared/values/webhook-secret.ts';
import { makeVerifyBatch } from '../../shared/verification/batch.ts';
import { composeVerification } from '../../shared/verification/compose.ts';
import { isLineWaiting, makeChainer } from './audit/chain.ts';
import { gatherDeniedAttempts } from './audit/denied-attempts.ts';
import { isOverTls } from '../../shared/http/headers.ts';
import { tokensFromPostgres } from './resources/access/access.ts';
import {
  codesFromPostgres,
  linksFromPostgres,
  portalsFromPostgres,
  sessionsFromPostgres,
} from './resources/access/sessions.ts';
import { makeProvider } from './resources/access/provider.ts';
import { sourcesFromPostgres } from './resources/payments/sources.ts';
import { makeSessionCookies } from './http/session-cookie.ts';
import { makeSendExport } from './http/exports.ts';
import { limitCalls, makeFairTurns } from './http/fair-turns.ts';
import { startRebuilder } from '../../shared/books/rebuilding/rebuilder.ts';
import { keepShardsOpen } from './reopen/reopen.ts';
import { quotasOf } from './resources/quotas.ts';
import { isPeriodDue, makeDuePeriods } from './resources/grants/schedule-job.ts';
import { changeDuePlans, isPlanDue } from './resources/plans/plan-job.ts';
import { resealOnce } from './resources/reseal.ts';
import { makeKeySets } from './resources/jwts/key-sets.ts';
import { makeSigningKeys } from './resources/jwts/signing-keys.ts';
import { isSomethingDeleted, removeDeleted } from './sync/remove-deleted.ts';
import { startWritingHoldKeys } from './sync/hold-keys.ts';
import { makeSweeper, watchStalePostgres } from './sync/sweeper.ts';
import type { ConfigOf } from '../../shared/runtime/variables.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import { startDueLoop, wakeWhenDue } from '../../shared/stores/due-loops.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import type { HandleOptions } from './http/route.ts';

export type ApiConfig = ConfigOf<typeof programs.api>;

/** The stores that the program lives on. */
export type ApiStores = {
  /** Sees every team. */
  sql: Sql;
  /** Sees the team that a transaction names. */
  teamSql: Sql;
  redis: ShardedRedis;
  books: Books;
  booksForRequests: Books;
  booksForExports: Books;
};

/** All that the program is but its connections and its ports: what it does in the background has begun, and requests can be handled. */
export function composeApi(stores: ApiStores, config: ApiConfig, runtime: Whole) {
  const { metrics, telemetry, log, clock } = runtime;
  const { sql, teamSql, redis, books, booksForRequests, booksForExports } = stores;
  const quotas = quotasOf(config);
  const verification = composeVerification(redis, config, runtime);
  const { outbox, uses, holds, cancel } = verification;
  const { verify } = verification.verifier;
  const stalePostgres = watchStalePostgres(metrics, log);
  const { MASTER_KEY, MASTER_KEY_PREVIOUS } = config;
  const masterKeys: MasterKeys = MASTER_KEY_PREVIOUS ? [MASTER_KEY, MASTER_KEY_PREVIOUS] : [MASTER_KEY];
  const deniedAttempts = gatherDeniedAttempts({ sql, teamSql, metrics, log, clock });
  const { sweepAll, isDue } = makeSweeper(sql, redis, stalePostgres);
  const makePeriods = (stopping: AbortSignal) => makeDuePeriods({ sql, redis, metrics, log }, stopping);
  const chain = makeChainer({ sql, redis, metrics, log });
  const holdKeysWriting = startWritingHoldKeys(redis, masterKeys, log);
  const background = [
    ...verification.background,
    keepShardsOpen({ sql, redis, books, stalePostgres, log, onOpened: holdKeysWriting.soon }),
    holdKeysWriting,
    wakeWhenDue(sql, runtime, [
      startRebuilder({ sql, redis, books, metrics, log }),
      startDueLoop(runtime, 'sweeping changes', isDue, sweepAll),
      startDueLoop(runtime, 'removing what was deleted', isSomethingDeleted, () => removeDeleted(sql, redis)),
      startDueLoop(runtime, 'making periods of grant schedules', isPeriodDue, makePeriods),
      startDueLoop(runtime, 'changing plans', isPlanDue, (stopping) =>
        changeDuePlans({ sql, redis, log, metrics }, stopping),
      ),
      startDueLoop(runtime, 'chaining the audit log', isLineWaiting, chain),
    ]),
    // Again and again: a program that still has the old master key may store something meanwhile.
    startLoop(clock, 600_000, log, 'encrypting under the current master key', () => resealOnce(sql, masterKeys, log)),
    startLoop(clock, 1_000, log, 'writing refused attempts to the audit log', () => deniedAttempts.write(false)),
  ];

  const countVerification = makeTeamRate(quotas.verify_per_second, clock);
  const countApiCall = makeTeamRate(quotas.api_per_second, clock);
  const sealer = webhookSealer(masterKeys);
  const limited = <Given = string | undefined>(
    authenticate: (given: Given) => Promise<Caller>,
    countCall = countApiCall,
  ) => limitTeams(limitFailures(authenticate, redis, config.FAILED_AUTH_PER_MINUTE), countCall);
  const provider = makeProvider(config, sql);
  const handling: HandleOptions = {
    services: {
      clock,
      redis,
      books: booksForRequests,
      exports: { books: booksForExports, mostBytes: config.EXPORT_MAX_BYTES },
      signingKeys: makeSigningKeys(masterKeys),
      keySets: makeKeySets(sql, log, clock),
      webhooks: { allowedTargets: config.WEBHOOK_ALLOWED_TARGETS, sealer },
      publicUrl: config.PUBLIC_API_URL,
      verify,
      holds,
      cancel,
      verifyBatch: makeVerifyBatch({
        verify,
        countCall: countVerification,
        logFailure: logFailures(log, clock),
        clock,
      }),
      quotas,
      sessionCookies: makeSessionCookies(isOverTls(config), 'keytally'),
      portalCookies: makeSessionCookies(isOverTls(config), 'keytally-portal'),
      provider,
      providerCookies: makeSessionCookies(isOverTls(config), 'keytally-provider'),
    },
    deadlineMs: config.REQUEST_DEADLINE_MS,
    sql,
    teamSql,
    authenticate: {
      token: limited(makeAuthenticate(tokensFromPostgres(sql), uses.note, clock)),
      session: limited(sessionsFromPostgres(sql, uses.note, clock)),
      portal: limited(portalsFromPostgres(sql, clock)),
      link: limited(linksFromPostgres(sql)),
      source: limited(sourcesFromPostgres(sql, sealer, clock)),
      code: limited(codesFromPostgres(sql)),
      provider: limited(async (answer) => {
        if (!provider) throw new ApiError('route_not_found');
        return provider.authenticate(answer);
      }),
      // A verification must not wait for Postgres, neither here nor on the verify app.
      verification: limited(
        makeAuthenticate(tokensFromRedis(redis, config.VERIFY_DEADLINE_MS), uses.note, clock),
        countVerification,
      ),
    },
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
  };
  return {
    handling,
    requireLook: outbox.requireLook,
    async stop() {
      await Promise.all(background.map((one) => one.stop()));
      await deniedAttempts.write(true).catch((error: unknown) => {
        log.warn({ error }, 'refused attempts are missing in the audit log');
      });
    },
  };
}
