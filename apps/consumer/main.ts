import '../../shared/runtime/require-node.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startConsumer } from './start.ts';

await run(
  'consumer',
  (config, log) =>
    startConsumer(config, log, systemClock, (error) => {
      log.fatal({ error }, 'this process can not go on reading Kafka');
      // Its supervisor starts a new one.
      process.exit(1);
    }),
  isPostgresConnectionError,
);
