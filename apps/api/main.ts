import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startApi } from './start.ts';

await run('api', (config, log) => startApi(config, log, systemClock, Math.random), isPostgresConnectionError);
