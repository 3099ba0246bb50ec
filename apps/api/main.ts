import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { readConfigOrExit } from '../../shared/runtime/config.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startApi } from './start.ts';

const config = readConfigOrExit(programs.api);
const log = makeLogger('api', config.LOG_LEVEL);

await run({ log, isHarmless: isPostgresConnectionError }, () => startApi(config, log, systemClock, Math.random));
