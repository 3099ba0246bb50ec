// The consumer and the outbox: another server, an emptied one, and entries that are not events.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { newId } from '../../shared/values/ids.ts';
import { ALL_SHARDS, shardOf } from '../../shared/values/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { makeOutboxReader } from '../../shared/events/outbox-reader.ts';
import { encodeEvent, EVENT_FIELD } from '../../shared/events/event.ts';
import { outboxState, outboxWatermark } from '../../shared/events/outbox-watch.ts';
import type { Batch, Source } from '../../shared/events/source.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { eventually } from '../../tests/helpers/world.ts';
import { makeConsumerWorld, numbered, type ConsumerWorld } from './helpers/consumer-world.ts';

let own: ConsumerWorld;
const test = suite('consume the outbox');
test.before(async () => {
  own = await makeConsumerWorld();
  await own.stopMerges();
});
test.after.each(() => own.stopConsuming());
test.after(() => own?.stop());

test('an entry is acknowledged only on the server that delivered it: on another its id may belong to another entry', async () => {
  const billingId = newId('bill');
  await own.append(billingId, numbered(10));
  const { metrics, log } = own;
  let elsewhere = false;
  const node = { ...own.node, runId: () => (elsewhere ? 'another' : own.node.runId()) };
  const reader = makeOutboxReader({ node, shards: [...ALL_SHARDS], name: 'c1', metrics, log });
  const batch = await firstBatch(reader);
  assert.is(batch.events.length, 10);
  elsewhere = true;
  await batch.acknowledge();
  assert.equal(await own.waiting(), { entries: 10, pending: 10 });
  elsewhere = false;
  await batch.acknowledge();
  assert.equal(await own.waiting(), { entries: 0, pending: 0 });
});

test('the books are not said to reach an event that waits, however late Redis appended it after the script dated it', async () => {
  const timeMs = (await own.redis.now()) - 50;
  const event = testEvent({ id: newId('evt'), timeMs, keyId: newId('key') });
  const id = await own.node.client.xadd(keyspace.outbox(7), '*', EVENT_FIELD, encodeEvent(event));
  const watermark = await outboxWatermark(own.redis);
  await own.node.client.xdel(keyspace.outbox(7), id!);
  assert.ok(watermark <= timeMs, `${watermark - timeMs} ms beyond`);
});

test('a consumer that died is removed from its groups once others have its entries, and never while it holds some', async () => {
  const billingId = newId('bill');
  await own.append(billingId, numbered(10));
  const taken = await firstBatch(own.reader('dead'));
  assert.is(taken.events.length, 10);
  const consumers = () => consumersOf(shardOf(billingId));
  const idle = async (ms: number) => (await consumers()).every((one) => one.idle > ms);
  await eventually('it was not heard of for a while', () => idle(500));

  const looking = own.consume(own.reader('other', 600_000, 500));
  await eventually('another one reads', async () => (await consumers()).length === 2);
  await own.append(billingId, numbered(10));
  await eventually(
    'its own are acknowledged',
    async () => (await own.booked(billingId)).physical === 10 && (await own.waiting()).entries === 10,
  );
  await looking.stop();
  assert.equal(
    (await consumers()).map(({ name, pending }) => ({ name, pending })),
    [
      { name: 'dead', pending: 10 },
      { name: 'other', pending: 0 },
    ],
  );

  await eventually('neither was heard of for a while', () => idle(500));
  const heir = own.consume(own.reader('heir', 500, 500));
  await eventually('all is booked', async () => (await own.booked(billingId)).events === 20);
  await eventually('they are removed', async () => (await consumers()).map(({ name }) => name).join() === 'heir');
  await heir.stop();
});

test('in an emptied Redis the groups are created again, and new entries are read', async () => {
  const one = own.consume(own.reader('c1'));
  for (let i = 0; i < 2; i++) {
    const billingId = newId('bill');
    await own.append(billingId, numbered(10));
    await eventually('inserted', async () => (await own.booked(billingId)).events === 10);
    await own.node.client.flushdb();
  }
  const billingId = newId('bill');
  await own.append(billingId, numbered(10));
  await eventually('inserted', async () => (await own.booked(billingId)).events === 10);
  await eventually('acknowledged', async () => (await own.waiting()).entries === 0);
  await one.stop();
});

test('an entry that is not an event is set aside with the reason and holds no other up', async () => {
  const billingId = newId('bill');
  const shard = shardOf(billingId);
  await own.append(billingId, numbered(5));
  const stream = keyspace.outbox(shard);
  const broken = ['e', JSON.stringify({ i: newId('evt'), r: '', c: 1, t: Date.now(), k: newId('key'), b: billingId })];
  const entry = await own.node.client.xadd(stream, '*', ...broken);
  await own.node.client.xadd(stream, '*', 'hello', 'world');
  await own.append(billingId, numbered(5));
  const one = own.consume(own.reader('c1'));
  await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
  await one.stop();
  assert.is((await own.booked(billingId)).events, 10);
  const dead = await own.node.client.xrange(keyspace.dead(shard), '-', '+');
  assert.equal(
    dead.map(([, fields]) => fields),
    [
      ['reason', 'field n is missing', 'entry', entry, ...broken],
      ['reason', 'the entry is not one field e', 'entry', dead[1]![1][3], 'hello', 'world'],
    ],
  );
  assert.match(await own.metrics.registry.metrics(), /keytally_unreadable_events_total\{.*\} 2\n/);
});

test('entries of one event, as before, and of many are read together, and the outbox counts their events', async () => {
  const billingId = newId('bill');
  const shard = shardOf(billingId);
  await own.append(billingId, numbered(3));
  await own.appendTogether(billingId, numbered(16));
  await own.append(billingId, numbered(2));
  await own.appendTogether(billingId, numbered(5));
  assert.equal([(await own.waiting()).entries, (await outboxState(own.redis)).events], [7, 26]);
  const one = own.consume(own.reader('c1'));
  await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
  await one.stop();
  assert.equal(await own.booked(billingId), { physical: 26, events: 26, cost: 26 });
  assert.is(Number(await own.node.client.get(keyspace.more(shard))), 0);
  assert.match(await own.metrics.registry.metrics(), /keytally_events_in_hand\{.*\} 0\n/);
});

test('what is no event in an entry is set aside alone, and the other events of the entry are booked, once', async () => {
  const billingId = newId('bill');
  const shard = shardOf(billingId);
  const lines = ['{"i":"no id"}', 'half an ev', Buffer.from([0xff, 0x00]).toString('latin1')];
  await own.appendTogether(billingId, numbered(16), lines);
  const first = own.consume(own.unacknowledged('c1'));
  await eventually('all are inserted', async () => (await own.booked(billingId)).events === 16);
  await first.stop();
  assert.is(await own.node.client.xlen(keyspace.dead(shard)), 0);
  const second = own.consume(own.reader('c1'));
  await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
  await second.stop();
  assert.equal(await own.booked(billingId), { physical: 32, events: 16, cost: 16 });
  const dead = await own.node.client.xrangeBuffer(keyspace.dead(shard), '-', '+');
  assert.equal(
    dead.map(([, fields]) => [String(fields[1]), fields[5]!.toString('latin1')]),
    [
      ['field i is not an id', lines[0]],
      ['the value is not JSON', lines[1]],
      ['the value is not JSON', lines[2]],
    ],
  );
  assert.is((await outboxState(own.redis)).events, 0);
});

test('events beside what is no event wait for the replicas, too, before anybody delivers them', async () => {
  const billingId = newId('bill');
  const { world, metrics, log } = own;
  const careful = connectRedis(world.env.REDIS_URL!, log, systemClock, { minReplicas: 1 });
  await careful.connected(60_000);
  const reader = makeOutboxReader({ node: careful.node(0), shards: [...ALL_SHARDS], name: 'c1', metrics, log });
  await own.appendTogether(billingId, numbered(2), ['half an ev']);
  try {
    const read = firstBatch(reader).then(({ events }) => events.length);
    assert.equal(await read.catch(() => 'no replica has them'), 'no replica has them');
  } finally {
    await careful.close();
    await own.node.client.flushdb();
  }
});

test('entries that are acknowledged twice leave the count of events once', async () => {
  const billingId = newId('bill');
  await own.appendTogether(billingId, numbered(16));
  await own.appendTogether(billingId, numbered(9));
  const batch = await firstBatch(own.reader('c1'));
  assert.is(batch.events.length, 25);
  await own.appendTogether(billingId, numbered(4));
  for (let i = 0; i < 2; i++) {
    await batch.acknowledge();
    assert.is((await outboxState(own.redis)).events, 4);
  }
  await own.node.client.flushdb();
});

/** What a reader gives first: a read that Redis keeps waiting may end before it has an entry. */
function firstBatch(reader: Source): Promise<Batch> {
  return eventually('some are read', () => reader.read(AbortSignal.timeout(30_000)));
}

/** The consumers of a shard's group. */
async function consumersOf(shard: number): Promise<{ name: string; pending: number; idle: number }[]> {
  const rows = (await own.node.client.xinfo('CONSUMERS', keyspace.outbox(shard), OUTBOX_GROUP)) as unknown[][];
  return rows.map((row) => {
    const field = (name: string) => row[row.indexOf(name) + 1];
    return { name: String(field('name')), pending: Number(field('pending')), idle: Number(field('idle')) };
  });
}

test.run();
