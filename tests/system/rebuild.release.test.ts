import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { metric } from '../helpers/metric.ts';
import { eventually, wireTo } from '../helpers/world.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';

// What becomes of balances when their Redis is emptied or comes back older, with events and adjustments still on their way.
// This file has a Redis of its own for that.

const test = suite('balances of a Redis that was lost');
let own: RebuildWorld;
let redis: RebuildWorld['redis'];
let world: RebuildWorld['world'];
let customers: RebuildWorld['customers'];

test.before(async () => {
  own = await makeRebuildWorld('rebuild', { BUS: 'redis' });
  ({ redis, world, customers } = own);
});
test.after(() => own?.stop());

test('an older Redis takes the debits and adjustments that it lost from the books before it opens', async () => {
  const consumer = await world.start('consumer');
  const [one, untouched] = [await customers.meteredKey('100'), await customers.meteredKey('100')];
  await own.spend(one, '1');
  await own.spend(untouched, '7');
  await redis.keep('first');
  await own.untilValid(one);
  await own.spend(one, '2');
  await own.adjust(one, '3');
  await own.spend(one, '0.5');
  await own.adjust(one, '-0.25');
  await own.booked(one, 6.25);
  await redis.comeBackAs('first');
  await own.untilValid(one);
  await eventually('nothing is missing', async () => (await own.used(one)) === '6.25');
  assert.is((await own.spend(one, '1')).billing.usedCredits, '7.25');
  assert.is((await own.spend(untouched, '1')).billing.usedCredits, '8');
  await own.booked(one, 7.25);
  await own.isExact(one);
  await own.isExact(untouched);
  await consumer.stop();
});

test('events that a consumer held while Redis was emptied are in the balance once they arrive', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const consumer = await world.start('consumer', { CLICKHOUSE_URL: wire.url });
  const one = await customers.meteredKey('100');
  await own.spend(one, '1');
  await own.adjust(one, '10');
  await own.booked(one, 11);
  const { id } = await customers.billing(one.meter);
  const lastMark = async () =>
    (await world.sql<{ mark: number }[]>`select max(mark) as mark from usage_marks where billing_id = ${id}`)[0]!.mark;
  const marked = await lastMark();
  await wire.cut();
  // Two events: the consumer takes no more than two batches in hand, and each may be alone in one.
  await own.spend(one, '6');
  await own.adjust(one, '-0.5');
  await eventually('the consumer holds it', async () => (await metric(consumer.url, 'keytally_events_in_hand')) === 2);
  await redis.admin.flushall();
  await own.untilValid(one);
  assert.is(Number(await own.used(one)) <= 11, true);
  await own.spend(one, '8');
  // Postgres has the adjustment, so applying it again needs no books.
  await eventually('the adjustment is applied again', async () => (await own.used(one)) === '18.5');
  await wire.mend();
  await eventually('late events are in the balance', async () => (await own.used(one)) === '24.5');
  await own.booked(one, 24.5);
  await own.isExact(one);
  // A month that was closed before they came has them told by a later statement.
  assert.ok((await lastMark()) > marked, 'their day is marked again');
  await consumer.stop();
  await wire.cut();
});

test('Redis lost again while it is being rebuilt counts nothing twice', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const consumer = await world.start('consumer', { CLICKHOUSE_URL: wire.url });
  const one = await customers.meteredKey('1000');
  await own.spend(one, '1');
  await own.booked(one, 1);
  await redis.keep('second');
  await own.untilValid(one);
  await eventually('nothing waits', async () => (await own.waiting()) === 0);
  await wire.cut();
  await own.spend(one, '6');
  await own.adjust(one, '0.5');
  await eventually('the consumer holds it', async () => (await metric(consumer.url, 'keytally_events_in_hand')) === 2);
  await redis.comeBackAs('second');
  // While it is being rebuilt.
  await own.untilBuilt();
  await redis.comeBackAs('second');
  await own.untilValid(one);
  await own.spend(one, '8');
  await redis.keep('third');
  await own.untilValid(one);
  await wire.mend();
  await eventually('late events are in the balance', async () => (await own.used(one)) === '15.5');
  await own.spend(one, '16');
  await own.booked(one, 31.5);
  // Back to before all of that, and emptied while it is being rebuilt.
  await redis.comeBackAs('third');
  await own.untilBuilt();
  await redis.admin.flushall();
  await own.untilValid(one);
  assert.is(await own.used(one), '31.5');
  await redis.comeBackAs('third');
  await own.untilValid(one);
  await eventually('nothing is missing', async () => (await own.used(one)) === '31.5');
  await own.isExact(one);
  await consumer.stop();
  await wire.cut();
});

test('events lost with the outbox are named with their amount, and never come back', async () => {
  const first = await world.start('consumer');
  const one = await customers.meteredKey('100');
  await own.spend(one, '1');
  await own.booked(one, 1);
  await first.stop();
  await own.spend(one, '2');
  await own.spend(one, '3');
  await redis.admin.flushall();
  await own.untilValid(one);
  assert.is(await own.used(one), '1');
  const second = await world.start('consumer');
  const { losses, status } = await eventually('the loss is named', async () => {
    const found = await own.reconciliation(one);
    return found.losses.length > 0 && found.status === 'EXACT' ? found : undefined;
  });
  assert.is(status, 'EXACT');
  assert.equal([losses.length, losses[0].events, losses[0].credits], [1, 2, '5']);
  await own.spend(one, '1');
  await own.booked(one, 2);
  assert.is((await own.reconciliation(one)).status, 'EXACT');
  await second.stop();
});

test.run();
