import { makeAuthenticate, tokensFromRedis } from '../../shared/auth/access-token.ts';
import { makeClientAddress } from '../../shared/http/client-address.ts';
import { limitFailures, limitTeams, makeTeamRate } from '../../shared/auth/failed-authentications.ts';
import { openShards, requireOpen } from '../../shared/stores/fence.ts';
import type { Whole } from '../../shared/runtime/run.ts';
import { makeProbes, onClientPort } from '../../shared/http/probes.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { serve, type Served } from '../../shared/http/serve.ts';
import { headersFor } from '../../shared/http/headers.ts';
import { makeHandler } from './server.ts';
import { metricsOfAll } from './workers.ts';
import { composeVerify, type VerifyConfig } from './compose.ts';

/** Starts the program. */
export async function startVerify(config: VerifyConfig, whole: Whole): Promise<Served> {
  const { metrics, log, clock } = whole;
  const redis = connectRedis(config.REDIS_URL, log, clock, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  // A worker that replaces another waits for Redis, so that it takes no call that it could only refuse. Without Redis it starts all the same, and answers 503.
  await redis.connected(2_000).catch(() => {});
  const { outbox, uses, outcomes, verifier, holds, cancel, stop } = composeVerify(redis, config, whole);
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
  // Counted for each scrape, by each worker. Where none serves, Kubernetes sends them no call of which a 503 could be counted.
  Object.assign(metrics.openShards, {
    collect: async () => metrics.openShards.set((await openShards(redis, 1_000).catch(() => new Map())).size),
  });
  const countCall = makeTeamRate(config.QUOTA_VERIFY_PER_SECOND, clock);
  const server = await serve(
    makeHandler({
      authenticate: limitTeams(
        limitFailures(
          makeAuthenticate(tokensFromRedis(redis, config.VERIFY_DEADLINE_MS), uses.note, clock),
          redis,
          config.FAILED_AUTH_PER_MINUTE,
          verifier.strangersTurn,
        ),
        countCall,
      ),
      countCall,
      ...verifier,
      noteKeyless: outcomes.noteKeyless,
      holds,
      cancel,
      clientAddress: makeClientAddress(config.TRUSTED_PROXIES),
      probe: onClientPort(probe, config.OPS_PORT),
      // People read the api's document; this one is for a developer's machine.
      hasDocs: config.OPS_PORT === undefined,
      headers: headersFor(config),
      ...whole,
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
      await stop();
      await redis.close();
    },
  };
}
