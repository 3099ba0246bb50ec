import '../../shared/runtime/require-node.ts';
import { begin, run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startWebhooks } from './start.ts';

await run('webhooks', (config, log) => begin('webhooks', config, log, startWebhooks), isPostgresConnectionError);
