import '../../shared/runtime/require-node.ts';
import cluster from 'node:cluster';
import { begin, run } from '../../shared/runtime/run.ts';
import { startVerify } from './start.ts';
import { reportListening, startWorkers } from './workers.ts';

await run('verify', async (config, log) => {
  if (config.WORKERS > 1 && cluster.isPrimary) return startWorkers(config.WORKERS, log);
  const running = await begin('verify', config, log, startVerify);
  reportListening();
  return running;
});
