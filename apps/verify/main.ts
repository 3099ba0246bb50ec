import cluster from 'node:cluster';
import { makeAuthenticate, tokensFromRedis } from '../../shared/access-token.ts';
import { makeClientAddress } from '../../shared/client-address.ts';
import { programs, readConfig } from '../../shared/config.ts';
import { limitFailures } from '../../shared/failed-authentications.ts';
import { requireOpen } from '../../shared/fence.ts';
import { makeLogger } from '../../shared/log.ts';
import { makeMetrics } from '../../shared/metrics.ts';
import { watchOutbox } from '../../shared/outbox.ts';
import { makeProbes } from '../../shared/probes.ts';
import { connectRedis } from '../../shared/redis.ts';
import { run } from '../../shared/run.ts';
import { serve } from '../../shared/serve.ts';
import { makeVerifier } from '../../shared/decide.ts';
import { noteTokenUses } from '../../shared/token-uses.ts';
import { keepWitnesses } from '../../shared/witnesses.ts';
import { makeHandler } from './server.ts';
import { metricsOfAll, startWorkers, tellListening } from './workers.ts';

const config = readConfig(...programs.verify);
const log = makeLogger('verify', config.LOG_LEVEL);

await run(log, async () => {
  if (config.WORKERS > 1 && cluster.isPrimary) return startWorkers(config.WORKERS, log);
  const metrics = makeMetrics('verify');
  const link = connectRedis(config.REDIS_URL, log, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  // A worker that takes another's place takes no call that it could only refuse; where Redis is away, it says so itself.
  await link.connected(2_000).catch(() => {});
  const outbox = watchOutbox(link, config.OUTBOX_MAX_ENTRIES, metrics, log);
  const witnesses = keepWitnesses(link, log);
  const uses = noteTokenUses(link, log);
  const server = await serve(
    makeHandler({
      authenticate: limitFailures(
        makeAuthenticate(tokensFromRedis(link, config.VERIFY_DEADLINE_MS), uses.note),
        link,
        config.FAILED_AUTH_PER_MINUTE,
      ),
      ...makeVerifier({ link, outboxFull: outbox.full, witness: witnesses.remember, config, metrics }),
      clientAddress: makeClientAddress(config.TRUSTED_PROXIES),
      probe: makeProbes(metrics, { redis: () => requireOpen(link, 1_000) }, metricsOfAll(metrics)),
      metrics,
      log,
      publicUrl: config.PUBLIC_API_URL,
    }),
    config,
    // A verification is small and in a hurry.
    { headersMs: 5_000, requestMs: 8_000 },
    log,
  );
  tellListening();

  return {
    async stop() {
      await server.stop();
      await Promise.all([outbox.stop(), witnesses.stop(), uses.stop()]);
      await link.close();
    },
  };
});
