import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../shared/values/ids.ts';
import { ALL_SHARDS, shardOf } from '../../shared/values/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { outboxSource, type Source } from '../../shared/events/outbox-reader.ts';
import { eventually, wireTo } from '../../tests/helpers/world.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { startConsuming } from './consume.ts';
import { makeSettleLateEvents } from './settle-late-events.ts';
import { makeMarkChangedDays } from './changed-days.ts';
import { makeBench, type Bench } from './helpers/consumer.ts';

let bench: Bench;
const consuming: Running[] = [];
const test = suite('consume');
test.before(async () => {
  bench = await makeBench();
});
test.after.each(async () => {
  await Promise.all(consuming.splice(0).map((one) => one.stop()));
});
test.after(() => bench.stop());

test('a verification is in the usage within 2 seconds, once', async () => {
  const { world } = bench;
  const consumer = await world.start('consumer');
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body;
  const meter = { workspaceId: workspace.id, externalMeterId: 'm' };
  const { customerBilling, ...other } = (
    await world.call('post', '/api/v1/customer-billing', { ...meter, totalCredits: '9' })
  ).body;
  const billingId = (customerBilling ?? Object.values(other)[0]).id as string;
  const { apiKey } = (await world.call('post', '/api/v1/api-key', { ...meter, name: 'k' })).body;
  const call = { key: apiKey.key, billing: { usage: '1.5', usageName: 'tokens' } };
  const answer = await world.call('post', '/api/v1/api-key/verify', { ...call, route: '/a?q=\'"\\é漢' });
  assert.is(answer.body.status, 'VALID', answer.text);
  const usage = () => world.call('get', `/api/v1/usage/${billingId}`);
  const { data } = (
    await eventually('usage is visible', async () => ((await usage()).body.data[0] ? usage() : undefined), 2_000)
  ).body;
  assert.equal([data.length, data[0].totalBillingUsage, data[0].billingUsageName], [1, '1.5', 'tokens']);

  const [row] = await bench.rows<Record<string, string>>(
    'select * from usage_events where billing_id = {billingId:String}',
    { billingId },
  );
  assert.match(row!.event_id!, /^evt_/);
  assert.is(row!.route, '/a?q=\'"\\é漢');
  assert.is(row!.used_micros, '1500000');
  assert.is(row!.day, row!.time!.slice(0, 10));
  assert.ok(Math.abs(Date.parse(`${row!.time!.replace(' ', 'T')}Z`) - Date.now()) < 10_000);
  await eventually('the outbox is empty', async () => (await bench.waiting()).entries === 0);
  assert.is((await bench.booked(billingId)).physical, 1);
  assert.match(await (await fetch(`${consumer.url}/metrics`)).text(), /keytally_consumed_events_total\{.*\} 1\n/);
  await consumer.stop();
});

test('a batch that was inserted but not acknowledged is delivered again and counts once', async () => {
  const billingId = newId('bill');
  await bench.append(billingId, events(300));
  const source = sourceOf('c1');
  const cut: Source = {
    async read(signal) {
      const batch = await source.read(signal);
      return batch && { ...batch, acknowledge: () => Promise.reject(new Error('cut')) };
    },
  };
  const first = consume(cut);
  await eventually('all are inserted', async () => (await bench.booked(billingId)).events === 300);
  await first.stop();
  assert.equal(await bench.waiting(), { entries: 300, pending: 300 });

  const second = consume(sourceOf('c1'));
  await eventually('all are acknowledged', async () => (await bench.waiting()).entries === 0);
  await second.stop();
  assert.equal(await bench.booked(billingId), { physical: 600, events: 300, cost: 300 });
});

test('one event in several entries, and in two consumers side by side, counts once', async () => {
  const billingId = newId('bill');
  const ids = await bench.append(billingId, events(200));
  await bench.append(
    billingId,
    events(200).map((event, i) => ({ ...event, id: ids[i]! })),
  );
  const running = [consume(sourceOf('c1')), consume(sourceOf('c2'))];
  for (let i = 0; i < 5; i++) await bench.append(newId('bill'), events(100));
  await eventually('all are acknowledged', async () => (await bench.waiting()).entries === 0);
  await Promise.all(running.map((one) => one.stop()));
  assert.equal([(await bench.booked(billingId)).events, (await bench.booked(billingId)).cost], [200, 200]);
});

test('entries of a consumer that died are taken over by another', async () => {
  const billingId = newId('bill');
  await bench.append(billingId, events(500));
  const stream = keyspace.outbox(shardOf(billingId));
  await bench.node.client.xreadgroup('GROUP', OUTBOX_GROUP, 'dead', 'COUNT', 400, 'STREAMS', stream, '>');
  await sleep(350);
  const alive = consume(sourceOf('c1', 300));
  await eventually('the other 100 are inserted', async () => (await bench.booked(billingId)).events >= 100);
  await eventually('all are acknowledged', async () => (await bench.waiting()).entries === 0, 12_000);
  await alive.stop();
  assert.equal(await bench.booked(billingId), { physical: 500, events: 500, cost: 500 });
});

test('kill -9 in the middle of 20,000 events, again and again: every event once', async () => {
  const records = Array.from({ length: 20 }, () => newId('bill'));
  const appending = (async () => {
    for (let i = 0; i < 10; i++) for (const record of records) await bench.append(record, events(100));
  })();
  let died = 0;
  for (const afterMs of [300, 700, 1_200]) {
    const consumer = await bench.world.start('consumer');
    await sleep(afterMs);
    if ((await bench.waiting()).entries > 0) died += 1;
    await consumer.stop('SIGKILL');
  }
  await appending;
  const consumer = await bench.world.start('consumer');
  await eventually('all are acknowledged', async () => (await bench.waiting()).entries === 0, 20_000);
  await consumer.stop();
  assert.ok(died > 0, 'it was never in the middle');
  for (const record of records) {
    const { events, cost } = await bench.booked(record);
    assert.equal([events, cost], [1_000, 1_000]);
  }
});

test('SIGTERM finishes the batch in hand: what is inserted is acknowledged, the rest waits untouched', async () => {
  const billingId = newId('bill');
  const consumer = await bench.world.start('consumer');
  const appending = (async () => {
    for (let i = 0; i < 20; i++) await bench.append(billingId, events(500));
  })();
  await sleep(200);
  await consumer.stop('SIGTERM');
  assert.is(consumer.process.exitCode, 0);
  await appending;
  const { entries, pending } = await bench.waiting();
  const { physical, events: booked } = await bench.booked(billingId);
  assert.is(pending, 0);
  assert.is(physical, booked);
  assert.is(booked + entries, 10_000);
  assert.is((await bench.world.sql`select from usage_marks where billing_id = ${billingId}`).count, booked > 0 ? 1 : 0);
  await bench.node.client.flushdb();
});

test('what another server gave is not acknowledged here, where its ids may mean other entries', async () => {
  const billingId = newId('bill');
  await bench.append(billingId, events(10));
  const { metrics, log } = bench;
  let elsewhere = false;
  const node = { ...bench.node, runId: () => (elsewhere ? 'another' : bench.node.runId()) };
  const source = outboxSource({ node, shards: [...ALL_SHARDS], name: 'c1', metrics, log });
  const batch = (await source.read(AbortSignal.timeout(5_000))) ?? (await source.read(AbortSignal.timeout(5_000)));
  assert.is(batch!.events.length, 10);
  elsewhere = true;
  await batch!.acknowledge();
  assert.equal(await bench.waiting(), { entries: 10, pending: 10 });
  elsewhere = false;
  await batch!.acknowledge();
  assert.equal(await bench.waiting(), { entries: 0, pending: 0 });
});

test('an emptied Redis gets its groups again, and what is appended then is read', async () => {
  const one = consume(sourceOf('c1'));
  for (let i = 0; i < 2; i++) {
    const billingId = newId('bill');
    await bench.append(billingId, events(10));
    await eventually('inserted', async () => (await bench.booked(billingId)).events === 10);
    await bench.node.client.flushdb();
  }
  const billingId = newId('bill');
  await bench.append(billingId, events(10));
  await eventually('inserted', async () => (await bench.booked(billingId)).events === 10);
  await eventually('acknowledged', async () => (await bench.waiting()).entries === 0);
  await one.stop();
});

test('an entry that is no event is set aside with its reason and holds nothing up', async () => {
  const billingId = newId('bill');
  const shard = shardOf(billingId);
  await bench.append(billingId, events(5));
  const stream = keyspace.outbox(shard);
  const broken = ['e', JSON.stringify({ i: newId('evt'), t: Date.now(), k: newId('key'), b: billingId, c: '1e9' })];
  const entry = await bench.node.client.xadd(stream, '*', ...broken);
  await bench.node.client.xadd(stream, '*', 'hello', 'world');
  await bench.append(billingId, events(5));
  const one = consume(sourceOf('c1'));
  await eventually('all are acknowledged', async () => (await bench.waiting()).entries === 0);
  await one.stop();
  assert.is((await bench.booked(billingId)).events, 10);
  const dead = await bench.node.client.xrange(keyspace.dead(shard), '-', '+');
  assert.equal(
    dead.map(([, fields]) => fields),
    [
      ['reason', 'field n is missing', 'entry', entry, ...broken],
      ['reason', 'the entry is not one field e', 'entry', dead[1]![1][3], 'hello', 'world'],
    ],
  );
  assert.match(await bench.metrics.registry.metrics(), /keytally_unreadable_events_total\{.*\} 2\n/);
});

test('ClickHouse, Postgres or Redis away: nothing is lost, nothing is acknowledged early, all goes on by itself', async () => {
  const { env } = bench.world;
  const wires = {
    CLICKHOUSE_URL: await wireTo(env.CLICKHOUSE_URL!),
    DATABASE_URL: await wireTo(env.DATABASE_URL!),
    REDIS_URL: await wireTo(env.REDIS_URL!),
  };
  const urls = Object.fromEntries(Object.entries(wires).map(([name, wire]) => [name, wire.url]));
  const consumer = await bench.world.start('consumer', urls);
  const records: string[] = [];
  for (const wire of Object.values(wires)) {
    const billingId = newId('bill');
    records.push(billingId);
    await bench.append(billingId, events(700));
    await wire.cut();
    await bench.append(billingId, events(700));
    await sleep(1_000);
    assert.ok((await bench.waiting()).entries >= 700);
    assert.is((await fetch(`${consumer.url}/readyz`)).status, 503);
    await wire.mend();
    await eventually('all are acknowledged', async () => (await bench.waiting()).entries === 0);
    assert.is((await bench.booked(billingId)).events, 1_400);
    await eventually('ready again', async () => (await fetch(`${consumer.url}/readyz`)).ok);
  }
  assert.is((await bench.world.sql`select from usage_marks where billing_id = any(${records})`).count, 3);
  await consumer.stop('SIGTERM');
  assert.is(consumer.process.exitCode, 0);
  await Promise.all(Object.values(wires).map((wire) => wire.cut()));
});

test.run();

function events(count: number) {
  return Array.from({ length: count }, (_, i) => ({ seq: i + 1 }));
}

function sourceOf(name: string, claimIdleMs = 30_000): Source {
  const { node, metrics, log } = bench;
  const shards = [...ALL_SHARDS];
  return outboxSource({ node, shards, name, metrics, log, claimIdleMs });
}

function consume(source: Source) {
  const { books, redis, metrics, log, world } = bench;
  const { sql } = world;
  const settleLateEvents = makeSettleLateEvents({ sql, redis, books, log });
  const one = startConsuming({
    source,
    books,
    markChangedDays: makeMarkChangedDays(sql),
    settleLateEvents,
    now: redis.now,
    metrics,
    log,
  });
  consuming.push(one);
  return one;
}
