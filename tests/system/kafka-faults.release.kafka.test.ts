// What relay and consumer do while others come and go, the broker dies, records are no events, and ClickHouse hangs.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { booksProxy } from '../helpers/books-proxy.ts';
import { makeCustomers } from '../helpers/customers.ts';
import { makeKafkaWorld, signalBroker } from '../helpers/kafka-world.ts';
import { metric } from '../helpers/metric.ts';
import { eventually } from '../helpers/world.ts';

const own = await makeKafkaWorld();

test('while a broker dies and comes back verifications go on, relay and consumer survive, and the books stay right', async () => {
  const meter = await own.newMeter();
  const [relay, consumer] = await Promise.all([own.world.start('relay'), own.world.start('consumer')]);
  await own.spend(meter, 100);
  await own.booksAreRight(meter, 100);
  // The run soon starts a broker again that has died: until all this was seen it answers as little, and is not dead yet.
  signalBroker('SIGSTOP');
  await Promise.all([
    own.spend(meter, 200),
    eventually('the relay says that it is not ready', async () => !(await fetch(`${relay.url}/readyz`)).ok),
    eventually('events wait in Redis', async () => (await metric(relay.url, 'keytally_outbox_entries')) > 0),
  ]);
  signalBroker('SIGKILL');
  await own.booksAreRight(meter, 300);
  assert.is(relay.process.exitCode ?? consumer.process.exitCode, null);
  await eventually('the relay is ready again', async () => (await fetch(`${relay.url}/readyz`)).ok);
  await Promise.all([relay.stop(), consumer.stop()]);
});

test('two consumers share the work, and when one dies the other does all of it', async () => {
  const meters = await Promise.all(Array.from({ length: 20 }, () => own.newMeter()));
  const relay = await own.world.start('relay');
  const [first, second] = await Promise.all([own.world.start('consumer'), own.world.start('consumer')]);
  let waves = 0;
  const spend = async () => {
    waves += 1;
    for (const meter of meters) await own.spend(meter, 1);
  };
  await eventually('both read', async () => {
    await spend();
    const read = await Promise.all([first, second].map(({ url }) => metric(url, 'keytally_consumed_events_total')));
    return read.every((events) => events > 0);
  });
  await first.stop('SIGKILL');
  await spend();
  for (const meter of meters) await own.booksAreRight(meter, waves);
  await eventually('nothing is left', async () => (await own.lag()) === 0);
  await Promise.all([second.stop(), relay.stop()]);
});

test('refusals come through Kafka too, and count once however often they are read', async () => {
  const { id: workspaceId } = (await own.world.call('post', '/api/v1/workspace', { name: 'refused' })).body.workspace;
  const customers = makeCustomers(own.world, workspaceId);
  const { id, key } = await customers.newKey({ enabled: false });
  const { client } = connectClickHouse(own.world.env.CLICKHOUSE_URL!);
  const refused = async () => {
    const query = 'select sum(calls) as calls from refusals final where key_id = {id:String}';
    const answer = await client.query({ query, query_params: { id }, format: 'JSONEachRow' });
    return Number((await answer.json<{ calls: string }>())[0]!.calls);
  };
  const [relay, consumer] = await Promise.all([own.world.start('relay'), own.world.start('consumer')]);
  for (let i = 0; i < 30; i++) assert.is((await customers.verify({ key })).body.status, 'DISABLED');
  await eventually('they are in the books', async () => (await refused()) >= 30);
  await Promise.all([relay.stop('SIGKILL'), consumer.stop('SIGKILL')]);
  await own.forgetGroup();
  const again = await own.world.start('consumer');
  await eventually('all has been read again', async () => (await own.lag()) === 0);
  assert.is(await refused(), 30);
  await Promise.all([again.stop(), client.close()]);
});

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
