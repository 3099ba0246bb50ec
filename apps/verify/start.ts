import type { Clock } from '../../shared/runtime/clock.ts';
import { makeAuthenticate, tokensFromRedis } from '../../shared/auth/access-token.ts';
import { makeClientAddress } from '../../shared/http/client-address.ts';
import type { programs } from '../../shared/runtime/programs.ts';
import { limitFailures } from '../../shared/auth/failed-authentications.ts';
import { limitTeams, makeTeamRate } from '../../shared/auth/team-rates.ts';
import { openShards, requireOpen } from '../../shared/stores/fence.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { watchOutbox } from '../../shared/events/outbox-watch.ts';
import { makeProbes, onClientPort } from '../../shared/http/probes.ts';
import { startTelemetry } from '../../shared/runtime/telemetry.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { serve, type Served } from '../../shared/http/serve.ts';
import { startTurning } from '../../shared/verification/account-turns.ts';
import { makeHoldCalls } from '../../shared/verification/hold-calls.ts';
import { makeHoldKeys } from '../../shared/verification/hold-keys.ts';
import { startOutcomes } from '../../shared/verification/outcomes.ts';
import { makeVerifier } from '../../shared/verification/verifier.ts';
import { noteTokenUses } from '../../shared/auth/token-uses.ts';
import { keepWitnesses } from '../../shared/verification/witnesses.ts';
import { headersFor } from '../../shared/http/headers.ts';
import { makeHandler } from './server.ts';
import { metricsOfAll } from './workers.ts';
import type { Config } from '../../shared/runtime/variables.ts';

type VerifyConfig = Pick<Config, (typeof programs.verify)[number]>;

/** Starts the program. */
export async function startVerify(
  config: VerifyConfig,
  log: Logger,
  clock: Clock,
  random: () => number,
): Promise<Served> {
  const metrics = makeMetrics('verify');
  const telemetry = await startTelemetry('verify', config, metrics, log);
  const redis = connectRedis(config.REDIS_URL, log, clock, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  // A worker that replaces another waits for Redis, so that it takes no call that it could only refuse. Without Redis it starts all the same, and answers 503.
  await redis.connected(2_000).catch(() => {});
  const limits = { maxEntries: config.OUTBOX_MAX_ENTRIES, maxMemoryPercent: config.OUTBOX_MAX_MEMORY_PERCENT };
  const outbox = watchOutbox(redis, limits, metrics, log);
  const witnesses = keepWitnesses(redis, log);
  const holdKeys = makeHoldKeys(redis, config.VERIFY_DEADLINE_MS);
  const uses = noteTokenUses(redis, log);
  const turning = startTurning(redis, log);
  const outcomes = startOutcomes({ redis, hasSpareRoom: outbox.hasSpareRoom, metrics, log, random });
  const probe = makeProbes(
    metrics,
    clock,
    {
      redis: async () => {
        outbox.requireLook();
        await requireOpen(redis, 1_000);
      },
    },
    {
      // One closed shard refuses its own keys, and no others.
      toServe: { redis: async () => (await openShards(redis, 1_000)).size > 0 },
      readMetrics: metricsOfAll(metrics),
    },
  );
  const countCall = makeTeamRate(config.QUOTA_VERIFY_PER_SECOND, clock);
  const server = await serve(
    makeHandler({
      authenticate: limitTeams(
        limitFailures(
          makeAuthenticate(tokensFromRedis(redis, config.VERIFY_DEADLINE_MS), uses.note, clock),
          redis,
          config.FAILED_AUTH_PER_MINUTE,
        ),
        countCall,
      ),
      countCall,
      ...makeVerifier({
        redis,
        holdKeys,
        outboxFull: outbox.full,
        requireMemory: outbox.requireMemory,
        witness: witnesses.remember,
        noteOutcome: outcomes.note,
        config,
        metrics,
        telemetry,
      }),
      noteKeyless: outcomes.noteKeyless,
      holds: makeHoldCalls({ redis, holdKeys, outboxFull: outbox.full, config, telemetry }),
      clientAddress: makeClientAddress(config.TRUSTED_PROXIES),
      probe: onClientPort(probe, config.OPS_PORT),
      // People read the api's document; this one is for a developer's machine.
      hasDocs: config.OPS_PORT === undefined,
      headers: headersFor(config),
      metrics,
      telemetry,
      log,
      clock,
      publicUrl: config.PUBLIC_VERIFY_URL || '/',
    }),
    probe,
    config,
    // A verification is small, and its caller waits for it.
    { headersMs: 5_000, requestMs: 8_000 },
    log,
  );

  return {
    ...server,
    async stop() {
      await server.stop();
      await Promise.all([outbox.stop(), witnesses.stop(), uses.stop(), turning.stop(), outcomes.stop()]);
      await redis.close();
      await telemetry.stop();
    },
  };
}
