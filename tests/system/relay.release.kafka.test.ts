// From a verification through Kafka to a usage row, with the relay and the broker dying on the way.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { makeCustomers } from '../helpers/customers.ts';
import { signalBroker, makeKafkaWorld, type KafkaWorld } from '../helpers/kafka-world.ts';
import { metric } from '../helpers/metric.ts';
import { eventually } from '../helpers/world.ts';

const TRIES = 3;
const test = suite('the relay');
let own: KafkaWorld;
test.before(async () => void (own = await makeKafkaWorld()));
test.after(() => own?.stop());

test('each verification is one record in Kafka and one line in the books, however often it is read', async () => {
  const meter = await own.newMeter();
  const [relay, consumer] = await Promise.all([own.world.start('relay'), own.world.start('consumer')]);
  await own.spend(meter, 500);
  await own.booksAreRight(meter, 500);
  assert.is((await own.readEvents(500)).length, 500);
  // On a busy machine a batch may come twice, but not all.
  assert.ok((await own.records()) < 1_000);
  const used = (await own.kafka.progress()).filter(({ end }) => end > 0);
  assert.is(used.length, 1, 'all of a billing record lies in one partition');
  await eventually('all is committed', async () => (await own.lag()) === 0);
  assert.ok((await metric(relay.url, 'keytally_relayed_events_total')) >= 500);
  assert.ok((await metric(consumer.url, 'keytally_consumed_events_total')) >= 500);
  await Promise.all([relay.stop(), consumer.stop()]);

  // Once more from the start: a group that Kafka does not know begins at the topic's beginning.
  await own.forgetGroup();
  const again = await own.world.start('consumer');
  await eventually(
    'all has been written again',
    async () => (await metric(again.url, 'keytally_consumed_events_total')) >= 500,
  );
  await eventually('all is committed', async () => (await own.lag()) === 0);
  await own.booksAreRight(meter, 500);
  await again.stop();
});

test('events of a relay that dies before it acknowledges them come twice and count once', async () => {
  const meter = await own.newMeter();
  const before = await own.records();
  const trap = await trapBefore(own.world.env.REDIS_URL!, /xack/i);
  const relay = await own.world.start('relay', { REDIS_URL: trap.url });
  trap.spring = () => relay.process.kill('SIGKILL');
  await own.spend(meter, 300);
  await eventually('it has died', async () => relay.process.signalCode !== null);
  const early = (await own.records()) - before;
  assert.ok(early > 0, 'Kafka had events when the relay died');
  await trap.close();
  const [next, consumer] = await Promise.all([own.world.start('relay'), own.world.start('consumer')]);
  await own.booksAreRight(meter, 300);
  await eventually('those came again', async () => (await own.records()) - before >= 300 + early);
  await own.booksAreRight(meter, 300);
  await Promise.all([next.stop(), consumer.stop()]);
});

test('while a broker dies and comes back verifications go on, relay and consumer survive, and the books stay right', async () => {
  const meter = await own.newMeter();
  const [relay, consumer] = await Promise.all([own.world.start('relay'), own.world.start('consumer')]);
  await own.spend(meter, 100);
  await own.booksAreRight(meter, 100);
  // The run soon starts a broker again that has died: until all this was seen it answers as little, and is not dead yet.
  signalBroker('SIGSTOP');
  await Promise.all([
    own.spend(meter, 400),
    eventually('the relay says that it is not ready', async () => !(await fetch(`${relay.url}/readyz`)).ok),
    eventually('events wait in Redis', async () => (await metric(relay.url, 'keytally_outbox_entries')) > 0),
  ]);
  signalBroker('SIGKILL');
  await own.booksAreRight(meter, 500);
  assert.is(relay.process.exitCode ?? consumer.process.exitCode, null);
  await eventually('the relay is ready again', async () => (await fetch(`${relay.url}/readyz`)).ok);
  await relay.stop();
  assert.is(relay.process.exitCode, 0, 'it ends when asked to');
  await consumer.stop();
});

test('refusals come through Kafka too, and count once however often relays and consumers die and they are read', async () => {
  const { id: workspaceId } = (await own.world.call('post', '/api/v1/workspace', { name: 'refused' })).body.workspace;
  const customers = makeCustomers(own.world, workspaceId);
  const { id, key } = await customers.newKey({ enabled: false });
  const client = connectClickHouse(own.world.env.CLICKHOUSE_URL!).client;
  const refused = async () => {
    const query = 'select sum(calls) as calls from refusals final where key_id = {id:String}';
    const answer = await client.query({ query, query_params: { id }, format: 'JSONEachRow' });
    return Number((await answer.json<{ calls: string }>())[0]!.calls);
  };
  const refuse = async (times: number) => {
    for (let i = 0; i < times; i++) assert.is((await customers.verify({ key })).body.status, 'DISABLED');
  };
  const before = await own.records();
  const trap = await trapBefore(own.world.env.REDIS_URL!, /xack/i);
  const killed = await own.world.start('relay', { REDIS_URL: trap.url });
  trap.spring = () => killed.process.kill('SIGKILL');
  await refuse(30);
  await eventually('it has died', async () => killed.process.signalCode !== null);
  assert.ok((await own.records()) > before, 'Kafka had counts when the relay died');
  await trap.close();
  const [relay, consumer] = await Promise.all([own.world.start('relay'), own.world.start('consumer')]);
  await eventually('30 refusals are in the books', async () => (await refused()) >= 30);
  await consumer.stop('SIGKILL');
  await refuse(20);
  const next = await own.world.start('consumer');
  await eventually('50 refusals are in the books', async () => (await refused()) >= 50);
  await eventually('all is committed', async () => (await own.lag()) === 0);
  assert.is(await refused(), 50);
  await Promise.all([relay.stop(), next.stop()]);

  await own.forgetGroup();
  const again = await own.world.start('consumer');
  await eventually('all has been read again', async () => (await own.lag()) === 0);
  assert.is(await refused(), 50);
  await Promise.all([again.stop(), client.close()]);
});

test('a relay that is asked to stop finishes the batch it has', async () => {
  let said = '';
  let records = 0;
  // A busy machine may take longer than a relay waits for Kafka: it sends such a batch again.
  for (let tries = 0; tries < TRIES && records !== 50; tries++) {
    const meter = await own.newMeter();
    const relay = await own.world.start('relay');
    const before = await own.records();
    await own.spend(meter, 50);
    await sleep(100);
    await relay.stop();
    assert.is(relay.process.exitCode, 0);
    const relayed = (await own.records()) - before;
    const [consumer, next] = [await own.world.start('consumer'), await own.world.start('relay')];
    await own.booksAreRight(meter, 50);
    records = (await own.records()) - before;
    said = `${relayed} of 50 were relayed by the first, and none of them twice`;
    await Promise.all([consumer.stop(), next.stop()]);
  }
  assert.is(records, 50, said);
});

test.run();

/** A proxy to a server that is cut once, right before the first matching bytes pass. */
async function trapBefore(url: string, pattern: RegExp) {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const trap = { url: '', spring: () => {}, close: async () => {} };
  const server = createServer((inner) => {
    const outer = connect(Number(port), hostname);
    for (const socket of [inner, outer]) sockets.add(socket.on('error', () => socket.destroy()));
    inner.on('data', (bytes) => {
      if (!pattern.test(bytes.toString('latin1'))) return void outer.write(bytes);
      trap.spring();
      for (const socket of sockets) socket.destroy();
    });
    outer.pipe(inner);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const way = new URL(url);
  way.port = String((server.address() as AddressInfo).port);
  trap.url = way.href;
  trap.close = async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  };
  return trap;
}
