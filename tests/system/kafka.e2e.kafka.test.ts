// From a verification through Kafka to the books, while the relay and the consumer are killed, records are no events, and ClickHouse hangs.
import { Kafka as Client, logLevel } from 'kafkajs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectKafka, waitingIn } from '../../shared/events/kafka.ts';
import { readConfig } from '../../shared/runtime/config.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { groups } from '../../shared/runtime/variables.ts';
import { booksProxy } from '../helpers/books-proxy.ts';
import { eventually, makeCustomers, must, newWorkspace, once, spawnWorld, totalOf } from '../helpers/world.ts';

/** A metered key, and the record that it draws on. */
type Meter = { billingId: string; key: string };

const world = await spawnWorld(['verify'], { BUS: 'kafka', KAFKA_TOPIC_PARTITIONS: '4' });
const [brokers, prefix] = [[world.env.KAFKA_BROKERS!], world.env.KAFKA_TOPIC_PREFIX!];
const settings = { KAFKA_BROKERS: brokers, KAFKA_TOPIC_PREFIX: prefix, KAFKA_TOPIC_PARTITIONS: 4 };
const kafka = connectKafka({ ...readConfig(groups.kafka), ...settings }, 'test', makeLogger('test', 'silent'));
const client = new Client({ clientId: 'outside', brokers, logLevel: logLevel.NOTHING });
await kafka.ensureTopics();
const customers = makeCustomers(world, await newWorkspace(world));
test.after(() => kafka.close());

test('whatever is killed on the way, each verification is one line in the books', async () => {
  const meter = await newMeter();
  const [relay, consumer] = await Promise.all([world.start('relay'), world.start('consumer')]);
  await spend(meter, 100);
  await booksAreRight(meter, 100);
  const used = (await kafka.progress()).filter(({ end }) => end > 0);
  assert.is(used.length, 1, 'all of a billing record lies in one partition');

  // Both have some in hand.
  const spending = spend(meter, 400);
  await eventually('Kafka has more', async () => (await records()) > 150);
  await consumer.stop('SIGKILL');
  await relay.stop('SIGKILL');
  await spending;
  const [nextRelay, nextConsumer] = await Promise.all([world.start('relay'), world.start('consumer')]);
  await booksAreRight(meter, 500);
  await eventually('all is committed', async () => (await lag()) === 0);
  await Promise.all([nextRelay.stop(), nextConsumer.stop()]);
});

test('records that are no events are set aside with the reason, and those behind them go on', async () => {
  const meter = await newMeter();
  const dead = client.consumer({ groupId: 'looks-at-the-dead' });
  // Kafka may give a record again, which is then set aside again.
  const set = new Map<string, string>();
  await dead.connect();
  await dead.subscribe({ topic: kafka.topics.dead, fromBeginning: true });
  await dead.run({
    eachMessage: async ({ message: { headers, value } }) => void set.set(String(value), String(headers?.reason)),
  });
  const [relay, consumer] = await Promise.all([world.start('relay'), world.start('consumer')]);
  await spend(meter, 10);
  const json = 'the value is not JSON';
  const poison = { '{"i":': json, '{"i":"evt"}': 'field i is not an id', '[]': 'field i is missing', '': json };
  const records = Object.keys(poison).map((value) => ({ key: meter.billingId, value }));
  await kafka.produce(kafka.topics.usage, records);
  await spend(meter, 10);
  await booksAreRight(meter, 20);
  await eventually('all are set aside', async () => set.size >= records.length).finally(() => dead.disconnect());
  assert.equal(Object.fromEntries(set), poison);
  await eventually('nothing blocks', async () => (await lag()) === 0);
  await Promise.all([relay.stop(), consumer.stop()]);
});

test('a consumer that ClickHouse never answers ends, and the next one does its work', async () => {
  const meter = await newMeter();
  const { CLICKHOUSE_URL = '' } = world.env;
  const hanging = await booksProxy(CLICKHOUSE_URL, ({ path }) => (/insert/i.test(path) ? 'kept' : 'passed'));
  const relay = await world.start('relay');
  const stuck = await world.start('consumer', { CLICKHOUSE_URL: hanging.url, KAFKA_WATCHDOG_SECONDS: '5' });
  await spend(meter, 1);
  await eventually('it has ended', async () => stuck.process.exitCode !== null);
  assert.is(stuck.process.exitCode, 1);
  hanging.close();
  const next = await world.start('consumer');
  await booksAreRight(meter, 1);
  await Promise.all([next.stop(), relay.stop()]);
});

async function newMeter(): Promise<Meter> {
  const { key, meter } = await customers.meteredKey('1000000');
  return { billingId: (await customers.billing(meter)).id, key };
}

/** Verifies a key so many times at 0.25 credits each; every call must be VALID. */
async function spend({ key }: Meter, times: number): Promise<void> {
  const body = { key, route: '/r', billing: { usage: '0.25', usageName: 'tokens' } };
  const verifyOnce = async () => {
    const answer = await must(200, customers.verify(body, { headers: once() }));
    assert.is(answer.body.status, 'VALID', answer.text);
  };
  for (let done = 0; done < times; done += 50)
    await Promise.all(Array.from({ length: Math.min(50, times - done) }, verifyOnce));
}

/** Waits until all that was spent is in the books, and proves them: nothing is missing, nothing counts twice. */
async function booksAreRight({ billingId }: Meter, events: number): Promise<void> {
  await eventually(`${events} events are in the books`, async () => (await booked(billingId)).events >= events);
  const wanted = { events, numbers: events, last: events, cost: events * 250_000, balance: events * 250_000 };
  assert.equal(await booked(billingId), wanted);
  const { data } = (await must(200, world.call('get', `/api/v1/usage/${billingId}`))).body;
  const counted = data.reduce((sum: number, row: { events: number }) => sum + row.events, 0);
  assert.equal([counted, Number(totalOf(data))], [events, events * 0.25]);
}

async function booked(billingId: string) {
  const query = `
    select toUInt32(count()) as events, toUInt32(uniqExact(seq)) as numbers, toUInt32(max(seq)) as last,
           toFloat64(sum(cost_micros)) as cost, toFloat64(max(used_micros)) as balance
    from usage_events final where billing_id = {billingId:String}`;
  const answer = await world.books.client.query({ query, query_params: { billingId }, format: 'JSONEachRow' });
  return (await answer.json<{ events: number }>())[0]!;
}

async function lag(): Promise<number> {
  return waitingIn(await progress());
}

async function records(): Promise<number> {
  return (await progress()).reduce((sum, { end }) => sum + end, 0);
}

/** A broker that has just started, or a group that is settling, may refuse to answer. */
function progress() {
  return eventually('how far the group is', () => kafka.progress().catch(() => undefined));
}
