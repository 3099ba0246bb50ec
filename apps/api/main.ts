import '../../shared/runtime/require-node.ts';
import { begin, run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startApi } from './start.ts';

await run('api', (config, log) => begin('api', config, log, startApi), isPostgresConnectionError);
