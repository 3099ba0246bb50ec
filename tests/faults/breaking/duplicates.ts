import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel } from 'kafkajs';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { FaultContext } from './fault.ts';

type Entry = { stream: string; fields: string[] };

/**
 * Lets events collect in the outbox, then adds each of them two more times before any is read, and once more when they are in
 * the books; in any order.
 */
export async function outboxDuplicates({ stage, random }: FaultContext): Promise<void> {
  const [redis] = stage.redis;
  const readers = stage.programs.filter((name) => /^(consumer|relay)/.test(name));
  for (const name of readers) stage.signal(name, 'SIGSTOP');
  await sleep(1_500);
  const held: Entry[] = [];
  for (const stream of ALL_SHARDS.map(keyspace.outbox)) {
    for (const [, fields] of await redis!.xrange(stream, '-', '+')) held.push({ stream, fields });
  }
  const addAll = (entries: Entry[]) =>
    Promise.all(entries.map(({ stream, fields }) => redis!.xadd(stream, '*', ...fields)));
  await addAll(random.shuffled([...held, ...held]));
  for (const name of readers) stage.signal(name, 'SIGCONT');
  await sleep(2_500);
  await addAll(random.shuffled(held));
}

/** Writes everything that Kafka holds into it again, in any order and into any partition. */
export async function kafkaDuplicates({ stage, random }: FaultContext): Promise<void> {
  const client = new Kafka({ clientId: 'duplicates', brokers: [stage.brokers], logLevel: logLevel.NOTHING });
  const admin = client.admin();
  const consumer = client.consumer({ groupId: `duplicates-${random.between(0, 1e9)}` });
  const producer = client.producer();
  await Promise.all([admin.connect(), consumer.connect(), producer.connect()]);
  try {
    const topic = 'keytally.usage.v1';
    const ends = await admin.fetchTopicOffsets(topic);
    const all = ends.reduce((sum, { high }) => sum + Number(high), 0);
    const values: (Buffer | null)[] = [];
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => void values.push(message.value) });
    const until = performance.now() + 15_000;
    while (values.length < all && performance.now() < until) await sleep(50);
    const messages = random.shuffled(values.slice(-2_000)).map((value) => ({ value, partition: random.between(0, 3) }));
    if (messages.length > 0) await producer.send({ topic, messages });
  } finally {
    await Promise.all([admin.disconnect(), consumer.disconnect(), producer.disconnect()]);
  }
}
