// No event is lost when a consumer dies or a store is unavailable.
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../shared/values/ids.ts';
import { shardOf } from '../../shared/values/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { eventually, wireTo } from '../../tests/helpers/world.ts';
import { makeConsumerWorld, numbered, type ConsumerWorld } from './helpers/consumer-world.ts';

let own: ConsumerWorld;
const test = suite('consume through failures');
test.before(async () => {
  own = await makeConsumerWorld();
  await own.stopMerges();
});
test.after.each(() => own.stopConsuming());
test.after(() => own?.stop());

test('another consumer takes over the entries of a dead one', async () => {
  const billingId = newId('bill');
  await own.append(billingId, numbered(500));
  const stream = keyspace.outbox(shardOf(billingId));
  await own.node.client.xgroup('CREATE', stream, OUTBOX_GROUP, '0');
  await own.node.client.xreadgroup('GROUP', OUTBOX_GROUP, 'dead', 'COUNT', 400, 'STREAMS', stream, '>');
  // As if it had died long ago: what c1 reads itself never gets so old, however busy the machine is.
  const pending = await own.node.client.xpending(stream, OUTBOX_GROUP, '-', '+', 400);
  const ids = (pending as [string][]).map(([id]) => id);
  await own.node.client.xclaim(stream, OUTBOX_GROUP, 'dead', 0, ...ids, 'IDLE', 600_000, 'JUSTID');
  const alive = own.consume(own.reader('c1', 300_000));
  await eventually('the other 100 are inserted', async () => (await own.booked(billingId)).events >= 100);
  await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
  await alive.stop();
  assert.equal(await own.booked(billingId), { physical: 500, events: 500, cost: 500 });
});

test('every event counts once after kill -9 in the middle of 20,000, again and again', async () => {
  // A busy machine may be through with them before each kill.
  await eventually('it was in the middle', async () => (await killedInTheMiddle()) > 0);
});

test('SIGTERM finishes the batch in progress: its events are acknowledged, all others wait untouched', async () => {
  const billingId = newId('bill');
  const consumer = await own.world.start('consumer');
  const appending = (async () => {
    for (let i = 0; i < 20; i++) await own.append(billingId, numbered(500));
  })();
  await sleep(200);
  await consumer.stop('SIGTERM');
  assert.is(consumer.process.exitCode, 0);
  await appending;
  const { entries, pending } = await own.waiting();
  const { physical, events: booked } = await own.booked(billingId);
  assert.is(pending, 0);
  assert.is(physical, booked);
  assert.is(booked + entries, 10_000);
  assert.is(await markedOf([billingId]), booked > 0 ? 1 : 0);
  await own.node.client.flushdb();
});

test('while ClickHouse, Postgres or Redis is unavailable nothing is lost or acknowledged early, and consuming goes on afterwards', async () => {
  const { env } = own.world;
  const wires = {
    CLICKHOUSE_URL: await wireTo(env.CLICKHOUSE_URL!),
    DATABASE_URL: await wireTo(env.DATABASE_URL!),
    REDIS_URL: await wireTo(env.REDIS_URL!),
  };
  const urls = Object.fromEntries(Object.entries(wires).map(([name, wire]) => [name, wire.url]));
  const consumer = await own.world.start('consumer', urls);
  const records: string[] = [];
  for (const wire of Object.values(wires)) {
    const billingId = newId('bill');
    records.push(billingId);
    await own.append(billingId, numbered(700));
    await wire.cut();
    await own.append(billingId, numbered(700));
    await sleep(1_000);
    assert.ok((await own.waiting()).entries >= 700);
    assert.is((await fetch(`${consumer.url}/readyz`)).status, 503);
    await wire.mend();
    await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
    assert.is((await own.booked(billingId)).events, 1_400);
    await eventually('ready again', async () => (await fetch(`${consumer.url}/readyz`)).ok);
  }
  assert.is(await markedOf(records), 3);
  await consumer.stop('SIGTERM');
  assert.is(consumer.process.exitCode, 0);
  await Promise.all(Object.values(wires).map((wire) => wire.cut()));
});

test.run();

/** How often a consumer was killed before it was through with its events. */
async function killedInTheMiddle(): Promise<number> {
  const records = Array.from({ length: 20 }, () => newId('bill'));
  const appending = (async () => {
    for (let i = 0; i < 10; i++) for (const record of records) await own.append(record, numbered(100));
  })();
  let died = 0;
  for (const afterMs of [300, 700, 1_200]) {
    const consumer = await own.world.start('consumer');
    await sleep(afterMs);
    if ((await own.waiting()).entries > 0) died += 1;
    await consumer.stop('SIGKILL');
  }
  await appending;
  const consumer = await own.world.start('consumer');
  await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
  await consumer.stop();
  for (const record of records) {
    const { events, cost } = await own.booked(record);
    assert.equal([events, cost], [1_000, 1_000]);
  }
  return died;
}

/** How many of these records have a day that is marked as changed. */
async function markedOf(records: string[]): Promise<number> {
  return (await own.world.sql`select distinct billing_id from usage_marks where billing_id = any(${records})`).count;
}
