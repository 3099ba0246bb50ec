import '../../shared/runtime/require-node.ts';
import { begin, run } from '../../shared/runtime/run.ts';
import { isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { startConsumer } from './start.ts';

await run(
  'consumer',
  (config, log) =>
    begin('consumer', config, log, (known, whole) =>
      startConsumer(known, whole, (error) => {
        log.fatal({ error }, 'this process can not go on reading Kafka');
        // Its supervisor starts a new one.
        process.exit(1);
      }),
    ),
  isPostgresConnectionError,
);
