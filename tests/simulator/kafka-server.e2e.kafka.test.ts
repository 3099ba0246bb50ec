// What stands in for Kafka in the simulator keeps to what Kafka does.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectKafka } from '../../shared/events/kafka.ts';
import { readConfig } from '../../shared/runtime/config.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { groups } from '../../shared/runtime/variables.ts';
import { eventually, spawnWorld } from '../helpers/world.ts';
import { makeKafkaServer } from './kafka-server.ts';
import { makeRandom, turnsGiven } from './random.ts';
import { makeSimulation } from './simulation.ts';

const { env } = await spawnWorld([], { BUS: 'kafka' });
const { KAFKA_BROKERS, KAFKA_TOPIC_PREFIX } = env;
const settings = readConfig(groups.kafka, { KAFKA_BROKERS, KAFKA_TOPIC_PREFIX });
const real = connectKafka(settings, 'test', makeLogger('test', 'silent'));
await real.ensureTopics();
const simulation = makeSimulation(makeRandom(1), 0);
const simulated = makeKafkaServer();
simulated.begin(simulation);
test.after(() => real.close());

const kinds = {
  Kafka: { kafka: real, meanwhile: <T>(work: Promise<T>) => work },
  'what stands in for it': { kafka: simulated.connect(simulation.startProcess('one')), meanwhile: simulate },
};
for (const [name, { kafka, meanwhile }] of Object.entries(kinds))
  test(`${name} gives the records of a key in order, headers as bytes, and tells how far they are done`, async () => {
    const values = ['a', 'b', 'c'];
    // Any of them may come again.
    const taken = new Map<string, { partition: number; value: Buffer; header: unknown }>();
    const reading = kafka.consume(async ({ partition, records }) => {
      for (const { offset, value, headers } of records)
        taken.set(offset, { partition, value: value!, header: headers?.outbox });
      return true;
    });
    const records = values.map((value) => ({ key: 'k', value, headers: { outbox: `${value} of 3` } }));
    await meanwhile(kafka.produce(kafka.topics.usage, records));
    const inOrder = () => [...taken].toSorted(([a], [b]) => Number(a) - Number(b)).map(([, one]) => one);
    await meanwhile(eventually('all were read', async () => taken.size >= values.length));
    const { partition } = inOrder()[0]!;
    assert.equal(
      inOrder().slice(0, 3),
      values.map((value) => ({ partition, value: Buffer.from(value), header: Buffer.from(`${value} of 3`) })),
    );
    await meanwhile(reading.commit(new Map([[partition, '1']])));
    const progress = await meanwhile(kafka.progress());
    const { committed, end } = progress.find((one) => one.partition === partition)!;
    assert.equal([committed, end], [2, taken.size]);
    await reading.stop();
  });

/** What is asked of a simulated server is done when the simulation goes on. */
async function simulate<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  void work.catch(() => {}).finally(() => (isDone = true));
  for (; !isDone; await turnsGiven()) if (!(await simulation.runOne())) await simulation.advance(500);
  return work;
}
