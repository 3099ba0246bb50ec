import '../../shared/runtime/require-node.ts';
import cluster from 'node:cluster';
import { systemClock } from '../../shared/runtime/clock.ts';
import { readConfigOrExit } from '../../shared/runtime/config.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { run } from '../../shared/runtime/run.ts';
import { startVerify } from './start.ts';
import { reportListening, startWorkers } from './workers.ts';

const config = readConfigOrExit(programs.verify);
const log = makeLogger('verify', config.LOG_LEVEL);

await run({ log }, async () => {
  if (config.WORKERS > 1 && cluster.isPrimary) return startWorkers(config.WORKERS, log);
  const running = await startVerify(config, log, systemClock, Math.random);
  reportListening();
  return running;
});
