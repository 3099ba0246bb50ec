import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { readConfigOrExit } from '../../shared/runtime/config.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startConsumer } from './start.ts';

const config = readConfigOrExit(programs.consumer);
const log = makeLogger('consumer', config.LOG_LEVEL);

await run({ log, isHarmless: isPostgresConnectionError }, () => startConsumer(config, log, systemClock, end));

// The supervisor of this process starts a new one.
function end(error: Error): void {
  log.fatal({ error }, 'this process can not go on reading Kafka');
  process.exit(1);
}
