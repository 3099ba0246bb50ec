import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { run } from '../../shared/runtime/run.ts';
import { startRelaying } from './start.ts';

await run('relay', (config, log) => startRelaying(config, log, systemClock));
