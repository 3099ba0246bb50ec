// What relay and consumer do while others come and go, the broker dies, records are no events, and ClickHouse hangs.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { booksProxy } from '../helpers/books-proxy.ts';
import { makeKafkaWorld } from '../helpers/kafka-world.ts';
import { eventually } from '../helpers/world.ts';

const own = await makeKafkaWorld();

test('records that are no events are set aside with the reason, and those behind them go on', async () => {
  const meter = await own.newMeter();
  const dead = own.client.consumer({ groupId: 'looks-at-the-dead' });
  // Kafka may give a record again, which is then set aside again.
  const set = new Map<string, string>();
  await dead.connect();
  await dead.subscribe({ topic: own.kafka.topics.dead, fromBeginning: true });
  await dead.run({
    eachMessage: async ({ message: { headers, value } }) => void set.set(String(value), String(headers?.reason)),
  });
  const [relay, consumer] = await Promise.all([own.world.start('relay'), own.world.start('consumer')]);
  await own.spend(meter, 10);
  const json = 'the value is not JSON';
  const poison = { '{"i":': json, '{"i":"evt"}': 'field i is not an id', '[]': 'field i is missing', '': json };
  const records = Object.keys(poison).map((value) => ({ key: meter.billingId, value }));
  await own.kafka.produce(own.kafka.topics.usage, records);
  await own.spend(meter, 10);
  await own.booksAreRight(meter, 20);
  await eventually('all are set aside', async () => set.size >= records.length).finally(() => dead.disconnect());
  assert.equal(Object.fromEntries(set), poison);
  await eventually('nothing blocks', async () => (await own.lag()) === 0);
  await Promise.all([relay.stop(), consumer.stop()]);
});

test('a consumer that ClickHouse never answers ends, and the next one does its work', async () => {
  const meter = await own.newMeter();
  const { CLICKHOUSE_URL = '' } = own.world.env;
  const hanging = await booksProxy(CLICKHOUSE_URL, ({ path }) => (/insert/i.test(path) ? 'kept' : 'passed'));
  const relay = await own.world.start('relay');
  const stuck = await own.world.start('consumer', { CLICKHOUSE_URL: hanging.url, KAFKA_WATCHDOG_SECONDS: '5' });
  await own.spend(meter, 1);
  await eventually('it has ended', async () => stuck.process.exitCode !== null);
  assert.is(stuck.process.exitCode, 1);
  hanging.close();
  const next = await own.world.start('consumer');
  await own.booksAreRight(meter, 1);
  await Promise.all([next.stop(), relay.stop()]);
});
