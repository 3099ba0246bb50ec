import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { AggregatorRegistry } from '@prometheus-io/client';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Running } from '../../shared/runtime/run.ts';

// What a worker tells the primary, what it asks, and what comes back: the metrics of all of them as text.
type Asked = { keytally: 'metrics' | 'listening' };
type Told = { keytallyMetrics: string };

/**
 * Runs this program several times behind one port, whose connections the kernel shares out (SO_REUSEPORT, on Linux and
 * FreeBSD); the primary takes none. A worker that dies is replaced; one that dies before it listened would die again, and ends them all.
 */
export function startWorkers(count: number, log: Logger): Running {
  const registry = new AggregatorRegistry();
  const listening = new WeakSet<Worker>();
  let stopping = false;
  cluster.on('exit', (worker, code, signal) => {
    if (stopping) return;
    if (!listening.has(worker)) throw new Error(`a worker could not start: it ended with ${signal || code}`);
    log.error({ pid: worker.process.pid, code, signal }, 'a worker ended; another takes its place');
    cluster.fork();
  });
  cluster.on('message', (worker, message: Asked) => {
    if (message?.keytally === 'listening') listening.add(worker);
    if (message?.keytally !== 'metrics') return;
    const answer = (text: string) => worker.isConnected() && worker.send({ keytallyMetrics: text } satisfies Told);
    registry.clusterMetrics().then(answer, (error: unknown) => log.warn({ error }, 'could not gather metrics'));
  });
  for (let i = 0; i < count; i++) cluster.fork();

  return {
    async stop() {
      stopping = true;
      const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
      const gone = workers.map((worker) => once(worker, 'exit'));
      for (const worker of workers) worker.process.kill('SIGTERM');
      await Promise.all(gone);
    },
  };
}

/** Tells the primary, where there is one, that this worker takes connections. */
export function tellListening(): void {
  process.send?.({ keytally: 'listening' } satisfies Asked);
}

/** How a worker answers a scrape, which may reach any of them: with the metrics of all. */
export function metricsOfAll(metrics: Metrics): () => Promise<string> {
  if (cluster.isPrimary) return () => metrics.registry.metrics();
  AggregatorRegistry.setRegistries(metrics.registry);
  // Made for its effect: it is what hears the primary ask.
  void new AggregatorRegistry();
  return async () => {
    const told = new Promise<string>((resolve) => {
      const hear = (message: Told) => {
        if (typeof message?.keytallyMetrics !== 'string') return;
        process.off('message', hear);
        resolve(message.keytallyMetrics);
      };
      process.on('message', hear);
    });
    process.send!({ keytally: 'metrics' } satisfies Asked);
    return told;
  };
}
