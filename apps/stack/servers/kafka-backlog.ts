import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { readConfig } from '../../../shared/runtime/config.ts';
import { groups, type KafkaLogin } from '../../../shared/runtime/variables.ts';
import { connectKafka } from '../../../shared/events/kafka.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { retry } from '../../../shared/runtime/retry.ts';
import type { Home } from '../process/home.ts';

// When a stack that ran with Kafka is started without it, the events that Kafka still holds must reach the books. Kafka
// therefore runs along until it is seen empty.

/** Whether Kafka has to run although it is no longer the bus. */
export function mayHoldEvents(home: Home): boolean {
  return existsSync(join(home.folder, 'kafka/data')) && !existsSync(emptyNote(home));
}

/** Writes down that Kafka is empty. */
export function noteEmpty(home: Home): void {
  writeFileSync(emptyNote(home), '', { mode: 0o600 });
}

/** Withdraws the note, before Kafka is used. */
export function noteUsed(home: Home): void {
  rmSync(emptyNote(home), { force: true });
}

/** How many usage events wait in a running Kafka. */
export async function countEvents(login: KafkaLogin): Promise<number> {
  const config = { ...readConfig(groups.kafka), KAFKA_TLS: false, ...login };
  const log = makeLogger('stack', 'silent');
  const kafka = connectKafka(config, 'stack', log);
  try {
    // Right after its start Kafka may still be loading the offsets.
    const signal = AbortSignal.timeout(20_000);
    const partitions = await retry(systemClock, signal, log, 'asking Kafka', () => kafka.progress());
    return partitions.reduce((sum, { committed, end }) => sum + end - committed, 0);
  } finally {
    await kafka.close();
  }
}

function emptyNote({ folder }: Home): string {
  return join(folder, 'kafka/empty');
}
