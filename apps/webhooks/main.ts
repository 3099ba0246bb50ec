import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startWebhooks } from './start.ts';

await run('webhooks', (config, log) => startWebhooks(config, log, systemClock, Math.random), isPostgresConnectionError);
