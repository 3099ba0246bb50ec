import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { AggregatorRegistry } from '@prometheus-io/client';
import { systemClock } from '../../shared/runtime/clock.ts';
import { keepFor } from '../../shared/runtime/keep-for.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import type { Running } from '../../shared/runtime/run.ts';

// A worker reports to the primary that it is listening, or asks it for the metrics of all workers, which come back as text.
type Question = { keytally: 'metrics' | 'listening' };
type Reply = { keytallyMetrics: string };

const COLLECTED_EVERY_MS = 1_000;
// Longer than the primary waits for all workers.
const ANSWERED_WITHIN_MS = 6_000;

/**
 * Runs this program several times behind one port. The kernel distributes the connections (SO_REUSEPORT, on Linux and
 * FreeBSD); the primary takes none. A worker that dies is replaced. If it dies before it listened, its replacement would
 * die too, so the whole program ends.
 */
export function startWorkers(count: number, log: Logger): Running {
  const registry = new AggregatorRegistry();
  // Each worker asks at most once a second; this is for all of them.
  const collect = keepFor(systemClock, COLLECTED_EVERY_MS, () => registry.clusterMetrics());
  const listening = new WeakSet<Worker>();
  let stopping = false;
  cluster.on('exit', (worker, code, signal) => {
    if (stopping) return;
    if (!listening.has(worker)) throw new Error(`a worker could not start: it ended with ${signal || code}`);
    log.error({ pid: worker.process.pid, code, signal }, 'a worker ended and is replaced');
    cluster.fork();
  });
  cluster.on('message', (worker, message: Question) => {
    if (message?.keytally === 'listening') listening.add(worker);
    if (message?.keytally !== 'metrics') return;
    const answer = (text: string) => worker.isConnected() && worker.send({ keytallyMetrics: text } satisfies Reply);
    collect().then(answer, (error: unknown) => log.warn({ error }, 'could not collect the metrics of all workers'));
  });
  for (let i = 0; i < count; i++) cluster.fork();

  return {
    async stop() {
      stopping = true;
      const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
      const exits = workers.map((worker) => once(worker, 'exit'));
      for (const worker of workers) worker.process.kill('SIGTERM');
      await Promise.all(exits);
    },
  };
}

/** Reports to the primary, if there is one, that this worker takes connections. */
export function reportListening(): void {
  process.send?.({ keytally: 'listening' } satisfies Question);
}

/** Gives the metrics of all workers, because a scrape may reach any one of them. */
export function metricsOfAll(metrics: Metrics): () => Promise<string> {
  if (cluster.isPrimary) return () => metrics.registry.metrics();
  AggregatorRegistry.setRegistries(metrics.registry);
  // The registry's constructor starts to listen for the primary's questions.
  void new AggregatorRegistry();
  return async () => {
    const { promise: text, resolve } = Promise.withResolvers<string>();
    const listen = (message: Reply) => {
      if (typeof message?.keytallyMetrics === 'string') resolve(message.keytallyMetrics);
    };
    process.on('message', listen);
    process.send!({ keytally: 'metrics' } satisfies Question);
    // The primary gives no answer when a worker ends meanwhile.
    return withTimeout(systemClock, ANSWERED_WITHIN_MS, text).finally(() => process.off('message', listen));
  };
}
