// What a consumer reads, and what becomes of it. That each event counts once wherever a consumer dies, the simulator proves.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outboxState, outboxWatermark } from '../../shared/events/outbox-watch.ts';
import { startPump } from '../../shared/events/pump.ts';
import { systemClock as clock } from '../../shared/runtime/clock.ts';
import { makeDiskMark } from '../../shared/stores/disk-mark.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { newId } from '../../shared/values/ids.ts';
import { shardOf } from '../../shared/values/key-text.ts';
import { makeHastyClock } from '../../tests/helpers/clock.ts';
import { encodeEvent, testEvent, testLine } from '../../tests/helpers/events.ts';
import { TEST_EPOCH } from '../../tests/helpers/test-stores.ts';
import { makeConsumerWorld, type ConsumerWorld } from './helpers/consumer-world.ts';
import { makeDelivery } from './consume.ts';
import { makeNoteLateEvents } from './note-late-events.ts';

let own: ConsumerWorld;
test.before.each(async () => void (own = await makeConsumerWorld()));

test('what a consumer has inserted while Redis is away is noted, for whoever opens its shard', async () => {
  const { billingId } = await own.storeKeyAndBilling();
  await own.append(billingId, 3);
  await own.node.client.hset(keyspace.meta(0), 'owner', 'of an older run');
  // It asks for Redis's clock then.
  await own.carryUntil('marking changed days');
  assert.is((await own.sql`select from unsettled_records where billing_id = ${billingId}`).count, 1);
});

test('the lag grows while what was read cannot be written', async () => {
  const event = { ...testLine('hold', { timeMs: 0 }), json: '' };
  let nowMs = 0;
  const told: unknown[] = [];
  const work = async () => {
    const { values } = await own.metrics.consumerLagSeconds.get();
    told.push(values[0]?.value);
    nowMs += 60_000;
    if (told.length < 3) throw new Error('the books are away');
  };
  const moved = { ...makeHastyClock(), now: () => nowMs };
  const { deliver } = makeDelivery(
    { ...own, now: own.redis.now, clock: moved },
    { events: [{ what: 'w', work }], outcomes: [] },
  );
  await deliver([event], new AbortController().signal);
  assert.equal(told, [0, 60, 120]);
});

test('a hold of a lost epoch is late as a verification is', async () => {
  const { billingId } = await own.storeKeyAndBilling();
  await makeNoteLateEvents(own.sql, own.redis)([testLine('hold', { billingId, epoch: TEST_EPOCH - 1 })]);
  assert.is((await own.sql`select from unsettled_records where billing_id = ${billingId}`).count, 1);
});

test('a consumer that is stopped finishes the batch in its hands, and leaves all others untouched', async () => {
  await own.append(newId('bill'), 10);
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const delivered: number[] = [];
  const deliver = async (events: unknown[]) => {
    stop(running.stop());
    await own.append(newId('bill'), 5);
    delivered.push(events.length);
  };
  const { metrics, log } = own;
  const source = own.reader('c1');
  const running = startPump({ source, deliver, deliverOutcomes: async () => {}, metrics, log, clock });
  await stopped;
  assert.equal([delivered, await own.waiting()], [[10], { entries: 5, pending: 0 }]);
});

test('an entry is acknowledged only on the server that delivered it: on another its id may belong to another entry', async () => {
  await own.append(newId('bill'), 10);
  let elsewhere = false;
  const node = { ...own.node, runId: () => (elsewhere ? 'another' : own.node.runId()) };
  const batch = await own.read(own.reader('c1', { node }));
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
  await own.appendEntry(7, encodeEvent(testEvent({ timeMs })));
  const { beforeMs } = await outboxWatermark(own.redis);
  assert.ok(beforeMs <= timeMs, `${beforeMs - timeMs} ms beyond`);
});

test('what is no event is set aside alone and once, with the reason, and holds no other up', async () => {
  const billingId = newId('bill');
  const shard = shardOf(billingId);
  const lines = ['{"i":"no id"}', 'half an ev', Buffer.from([0xff, 0x00]).toString('latin1')];
  const broken = JSON.stringify({ i: newId('evt'), r: '', c: 1, t: Date.now(), k: newId('key'), b: billingId });
  await own.appendTogether(billingId, 16, lines);
  await own.appendEntry(shard, broken);
  await own.node.client.xadd(keyspace.outbox(shard), '*', 'hello', 'world');
  await own.append(billingId, 5);
  await own.carryUntil('marking changed days');
  assert.is(await own.node.client.xlen(keyspace.dead(shard)), 0, 'before the others are done');
  await own.carry();
  assert.equal(await own.booked(billingId), { events: 21, cost: 21 });
  const dead = await own.node.client.xrangeBuffer(keyspace.dead(shard), '-', '+');
  assert.equal(
    dead
      .map(([, fields]) => [fields[1], ...fields.slice(5)].map((one) => one!.toString('latin1')).join(': '))
      .toSorted(),
    [
      `field i is not an id: ${lines[0]}`,
      `field n is missing: ${broken}`,
      'the entry is not one field e: world',
      `the value is not JSON: ${lines[1]}`,
      `the value is not JSON: ${lines[2]}`,
    ],
  );
  assert.match(await own.metrics.registry.metrics(), /keytally_unreadable_events_total\{.*\} 5\n/);
});

test('entries of one event and of many are read together, and the outbox counts their events, acknowledged twice or once', async () => {
  const billingId = newId('bill');
  await own.append(billingId, 3);
  await own.appendTogether(billingId, 16);
  assert.equal([(await own.waiting()).entries, (await outboxState(own.redis)).events], [4, 19]);
  const batch = await own.read();
  assert.is(batch.events.length, 19);
  await own.appendTogether(billingId, 4);
  for (let i = 0; i < 2; i++) {
    await batch.acknowledge();
    assert.is((await outboxState(own.redis)).events, 4);
  }
  await own.carry();
  assert.is(Number(await own.node.client.get(keyspace.more(shardOf(billingId)))), 0);
});

test('events wait for the replicas before anybody delivers them, beside what is no event, too', async () => {
  const asked: unknown[] = [];
  const copied = async (...args: unknown[]) => {
    asked.push(args[0]);
    throw new Error('no replica has them');
  };
  const node = { ...own.node, copied } as typeof own.node;
  await own.appendTogether(newId('bill'), 2, ['half an ev']);
  assert.is(await own.read(own.reader('c1', { node })).catch((error: Error) => error.message), 'no replica has them');
  assert.equal(asked, [own.node.runId()]);
});

test('a consumer that was not heard of for long is forgotten, and never one that holds entries', async () => {
  const billingId = newId('bill');
  await own.append(billingId, 3);
  await own.read(own.reader('dead'));
  const outbox = keyspace.outbox(shardOf(billingId));
  const forget = async (idleMs: number) => {
    const [, , removed] = await own.node.script('forget', [outbox], [OUTBOX_GROUP, idleMs], 1_000);
    return Number(removed);
  };
  await own.node.client.xgroup('CREATECONSUMER', outbox, OUTBOX_GROUP, 'idle');
  assert.equal([await forget(60_000), await forget(0), await forget(0)], [0, 1, 0]);
  assert.equal(await own.waiting(), { entries: 3, pending: 3 });
});

test('with events all the time, none waits longer than 1.6 s for its fsync, its reading and its batch together', async () => {
  let atMs = 0;
  const appendedAt = new Map<string, number>();
  // One event at the beginning of each wait of the reader, whose waits alone make time pass.
  const sleep = async (ms: number) => {
    const billingId = newId('bill');
    appendedAt.set(billingId, atMs);
    await own.append(billingId, 1);
    atMs += ms;
  };
  const node = { ...own.node, clock: { ...clock, monotonic: () => atMs, sleep } };
  const persistence = 'aof_enabled:1\r\naof_last_write_status:ok\r\naof_pending_bio_fsync:0\r\n';
  const client = { time: () => own.node.client.time(), info: async () => persistence };
  const disk = makeDiskMark({ ...node, client: client as never });
  const reader = own.reader('c1', { node, disk });
  const waited: number[] = [];
  while (waited.length < 40) {
    const batch = await own.read(reader);
    for (const { billingId } of batch.events) waited.push(atMs - (appendedAt.get(billingId) ?? atMs));
    await batch.acknowledge();
  }
  assert.ok(Math.max(...waited) <= 1_600, waited.join());
});
