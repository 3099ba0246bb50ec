// From Kafka into the books: what the consumer does when other consumers come and go, with records that are no events, and
// while ClickHouse is unavailable.
import { once } from 'node:events';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeEvent } from '../../shared/events/event.ts';
import { newId } from '../../shared/values/ids.ts';
import { eventually, wireTo } from '../helpers/world.ts';
import { testEvent } from '../helpers/events.ts';
import { makeKafkaWorld, type KafkaWorld, type Meter } from '../helpers/kafka-world.ts';
import { metric } from '../helpers/metric.ts';

const TRIES = 3;
const test = suite('the consumer of Kafka');
let own: KafkaWorld;
let stuck: Awaited<ReturnType<typeof startStuck>>;
test.before(async () => {
  own = await makeKafkaWorld();
  stuck = await startStuck();
});
test.after(async () => {
  stuck?.way.close();
  stuck?.way.closeAllConnections();
  await own?.stop();
});

test('two consumers share the work, and when one dies the other does all of it', async () => {
  const meters = await Promise.all(Array.from({ length: 20 }, () => own.newMeter()));
  const first = await own.world.start('consumer');
  let wave = 0;
  const produce = async (waves: number) => {
    const until = wave + waves;
    for (; wave < until; wave++) await Promise.all(meters.map((meter) => produceEvents(meter, 50, wave * 50)));
  };
  await produce(10);
  const second = await own.world.start('consumer');
  // The first may finish everything before the second is given its share, which takes a while.
  await eventually('both read', async () => {
    await produce(1);
    return (await metric(second.url, 'keytally_consumed_events_total')) > 0;
  });
  await produce(10);
  first.process.kill('SIGKILL');
  await produce(30);
  for (const meter of meters) await own.booksAreRight(meter, wave * 50);
  await eventually('nothing is left', async () => (await own.lag()) === 0);
  await second.stop();
});

test('records that are no events are set aside with the reason, and those behind them go on', async () => {
  const meter = await own.newMeter();
  const dead = own.client.consumer({ groupId: 'looks-at-the-dead' });
  const set: { reason: string; value: string; key: string }[] = [];
  // Kafka may give a record again, which is then set aside again.
  const setAside = () => [...new Map(set.map((one) => [one.value, one])).values()];
  await dead.connect();
  await dead.subscribe({ topic: own.kafka.topics.dead, fromBeginning: true });
  await dead.run({
    eachMessage: async ({ message: { headers, value, key } }) =>
      void set.push({ reason: String(headers?.reason), value: String(value), key: String(key) }),
  });
  const consumer = await own.world.start('consumer');
  await produceEvents(meter, 10);
  const key = meter.billingId;
  const poison = ['{"i":', '{"i":"evt"}', '[]', ''].map((value) => ({ key, value }));
  await own.kafka.produce(own.kafka.topics.usage, poison);
  await own.kafka.produce(own.kafka.topics.usage, [{ key, value: 'x'.repeat(1_000_000) }]);
  await produceEvents(meter, 10, 10);
  await own.booksAreRight(meter, 20);
  await eventually('all are set aside', async () => setAside().length >= 5).finally(() => dead.disconnect());
  const reasons = setAside()
    .map(({ reason }) => reason)
    .toSorted();
  const json = 'the value is not JSON';
  assert.equal(reasons, ['field i is missing', 'field i is not an id', json, json, json].toSorted());
  assert.ok(set.some(({ value }) => value === '{"i":"evt"}') && set.every((one) => one.key === key));
  await eventually('nothing blocks', async () => (await own.lag()) === 0);
  assert.ok((await metric(consumer.url, 'keytally_unreadable_events_total')) >= 5);
  await consumer.stop();
});

test('a consumer stays in its group and goes on after ClickHouse was unavailable for long', async () => {
  const meter = await own.newMeter();
  const wire = await wireTo(own.world.env.CLICKHOUSE_URL!);
  const consumer = await own.world.start('consumer', { CLICKHOUSE_URL: wire.url });
  await produceEvents(meter, 100);
  let events = 100;
  let stayed = false;
  // A busy machine may keep it from saying in time that it lives.
  for (let tries = 0; tries < TRIES && !stayed; tries++) {
    await own.booksAreRight(meter, events);
    const before = await eventually('it is in its group', async () => (await members())[0]);
    await wire.cut();
    await produceEvents(meter, 30_000, events);
    events += 30_000;
    // Longer than Kafka waits for a silent consumer.
    await sleep(7_000);
    await wire.mend();
    await own.booksAreRight(meter, events);
    stayed = (await members())[0] === before;
  }
  assert.ok(stayed);
  await consumer.stop();
  await wire.cut();
});

test('a stuck consumer ends, and the next one does its work', async () => {
  await eventually('it has ended', async () => stuck.consumer.process.exitCode !== null);
  assert.is(stuck.consumer.process.exitCode, 1);
  const next = await own.world.start('consumer', { KAFKA_TOPIC_PREFIX: stuck.prefix });
  await eventually('it is done', async () => (await metric(next.url, 'keytally_consumed_events_total')) >= 1);
  await next.stop();
});

test.run();

async function members(): Promise<string[]> {
  const { groups } = await own.admin.describeGroups([own.group]);
  return groups[0]!.members.map(({ memberId }) => memberId);
}

async function produceEvents({ billingId }: Meter, count: number, after = 0): Promise<void> {
  const records = Array.from({ length: count }, (_, i) => {
    const sequence = after + i + 1;
    const cost = { costMicros: 250_000, usedMicros: 250_000 * sequence };
    const event = testEvent({ billingId, sequence, ...cost, keyId: KEY, usageName: 'tokens', route: '/r' });
    return { key: billingId, value: encodeEvent(event) };
  });
  await own.kafka.produce(own.kafka.topics.usage, records);
}

/** A consumer, on topics of its own, whose inserts are never answered although ClickHouse answers everything else. */
async function startStuck() {
  const target = new URL(own.world.env.CLICKHOUSE_URL!);
  const way = createServer((request, response) => {
    if (/insert/i.test(request.url ?? '')) return void request.resume();
    const { hostname, port } = target;
    const onward = forward({ hostname, port, path: request.url, method: request.method, headers: request.headers });
    onward.on('response', (answer) => answer.pipe(response.writeHead(answer.statusCode!, answer.headers)));
    request.pipe(onward);
  });
  await once(way.listen(0, '127.0.0.1'), 'listening');
  const url = new URL(target);
  url.port = String((way.address() as AddressInfo).port);
  const prefix = `${own.world.env.KAFKA_TOPIC_PREFIX}_stuck`;
  const consumer = await own.world.start('consumer', {
    CLICKHOUSE_URL: url.href,
    KAFKA_TOPIC_PREFIX: prefix,
    KAFKA_WATCHDOG_SECONDS: '5',
  });
  const producer = own.client.producer();
  await producer.connect();
  const value = encodeEvent(testEvent({ keyId: KEY }));
  await producer.send({ topic: `${prefix}.usage.v1`, messages: [{ value }] });
  await producer.disconnect();
  return { consumer, way, prefix };
}

const KEY = newId('key');
