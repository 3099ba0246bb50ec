// From a verification through Kafka to the books, while the relay and the consumer are killed.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKafkaWorld } from '../helpers/kafka-world.ts';
import { eventually } from '../helpers/world.ts';

const own = await makeKafkaWorld();

test('whatever is killed on the way, and however often it is read, each verification is one line in the books', async () => {
  const { world } = own;
  const meter = await own.newMeter();
  const [relay, consumer] = await Promise.all([world.start('relay'), world.start('consumer')]);
  await own.spend(meter, 100);
  await own.booksAreRight(meter, 100);
  const used = (await own.kafka.progress()).filter(({ end }) => end > 0);
  assert.is(used.length, 1, 'all of a billing record lies in one partition');

  // Both have some in hand.
  const spending = own.spend(meter, 400);
  await eventually('Kafka has more', async () => (await own.records()) > 150);
  await consumer.stop('SIGKILL');
  await relay.stop('SIGKILL');
  await spending;
  const [nextRelay, nextConsumer] = await Promise.all([world.start('relay'), world.start('consumer')]);
  await own.booksAreRight(meter, 500);
  await eventually('all is committed', async () => (await own.lag()) === 0);
  await Promise.all([nextRelay.stop(), nextConsumer.stop()]);

  // Once more from the start: a group that Kafka does not know begins at the topic's beginning.
  await own.forgetGroup();
  const again = await world.start('consumer');
  await eventually('all is read again', async () => (await own.lag()) === 0);
  await own.booksAreRight(meter, 500);
  await again.stop();
});
