import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { readConfigOrExit } from '../../shared/runtime/config.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { run } from '../../shared/runtime/run.ts';
import { startRelaying } from './start.ts';

const config = readConfigOrExit(programs.relay);
const log = makeLogger('relay', config.LOG_LEVEL);

await run({ log }, () => startRelaying(config, log, systemClock));
