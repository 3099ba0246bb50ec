import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { readConfigOrExit } from '../../shared/runtime/config.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startWebhooks } from './start.ts';

const config = readConfigOrExit(programs.webhooks);
const log = makeLogger('webhooks', config.LOG_LEVEL);

await run({ log, isHarmless: isPostgresConnectionError }, () => startWebhooks(config, log, systemClock, Math.random));
