import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareKafka } from '../../apps/stack/servers/kafka.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { makeSupervisor } from '../../apps/stack/process/supervisor.ts';

/** Whether a test file needs Kafka, and is left out without it. */
export function needsKafka(file: string): boolean {
  return file.endsWith('kafka.test.ts');
}

/** Whether a test file uses the run's broker. Other files that need Kafka start one of their own. */
export function sharesBroker(file: string): boolean {
  return needsKafka(file) && /World\([^;]*BUS: 'kafka'/.test(readFileSync(file, 'utf8'));
}

/**
 * Starts the broker of a test run, and starts it again whenever a test kills it. Gives the environment of its test files: its
 * address, and the file with its process id.
 */
export async function startTestKafka(folder: string, say: (line: string) => void): Promise<Record<string, string>> {
  const own = join(folder, 'kafka');
  mkdirSync(own, { recursive: true, mode: 0o700 });
  const [kafka = 0, kafkaController = 0] = await freePorts(2);
  const program = await prepareKafka({ folder: own, ports: { kafka, kafkaController }, say });
  // `removeTestFolder` finds its records in the run's folder, and stops it.
  await makeSupervisor({ folder: own, logFile: () => join(own, 'log'), say: () => {} }).add(program);
  return { TEST_KAFKA_BROKERS: `127.0.0.1:${kafka}`, TEST_KAFKA_PROCESSES: join(own, 'processes.json') };
}
