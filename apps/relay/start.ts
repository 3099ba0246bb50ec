import type { programs } from '../../shared/runtime/programs.ts';
import { connectKafka } from '../../shared/events/kafka.ts';
import type { Whole } from '../../shared/runtime/run.ts';
import { makeOutboxReader } from '../../shared/events/outbox-reader.ts';
import { startPerNode } from '../../shared/events/start-per-node.ts';
import { watchOutbox } from '../../shared/events/outbox-watch.ts';
import { makeProbes } from '../../shared/http/probes.ts';
import { serveProbes, type Served } from '../../shared/http/serve.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { startRelay } from './relay.ts';
import type { ConfigOf } from '../../shared/runtime/variables.ts';

type RelayConfig = ConfigOf<typeof programs.relay>;

/** Starts the program. */
export async function startRelaying(config: RelayConfig, whole: Whole): Promise<Served> {
  const { metrics, log, clock } = whole;
  const redis = connectRedis(config.REDIS_URL, log, clock, { metrics, minReplicas: config.REDIS_MIN_REPLICAS });
  const kafka = connectKafka(config, 'relay', log);

  // It refuses nothing, and watches for its metrics alone.
  const outbox = watchOutbox(redis, { maxEntries: Infinity, maxMemoryPercent: Infinity }, metrics, log);
  const name = config.CONSUMER_NAME;
  const relaying = startPerNode(redis, log, (node, shards) =>
    startRelay({ ...whole, source: makeOutboxReader({ node, shards, name, metrics, log }), kafka }),
  );
  const probe = makeProbes(metrics, clock, { redis: () => redis.now(), kafka: () => kafka.ready() });
  const server = await serveProbes(probe, config, log);

  return {
    ...server,
    async stop() {
      await Promise.all([relaying.stop(), outbox.stop()]);
      await server.stop();
      await Promise.all([kafka.close(), redis.close()]);
    },
  };
}
