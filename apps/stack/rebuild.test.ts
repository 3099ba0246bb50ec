import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ALL_SHARDS } from '../../shared/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/keyspace.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../../shared/testing-customers.ts';
import { eventually, makeWorld, wireTo, type World } from '../../shared/testing.ts';
import { makeOwnRedis } from './own-redis.ts';

// What is left of balances when their Redis is emptied or comes back behind, with events and adjustments still on their
// way: this file has a Redis of its own to do that to.

const test = suite('balances of a Redis that was lost');
let redis: Awaited<ReturnType<typeof makeOwnRedis>>;
let world: World;
let customers: Customers;

test.before(async () => {
  redis = await makeOwnRedis('rebuild');
  world = await makeWorld(['verify'], { REDIS_URL: redis.url });
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'rebuilt' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(async () => {
  await world.stop();
  await redis.remove();
});

test('one that comes back behind takes what it lost from the books before it opens, adjustments among it', async () => {
  const consumer = await world.start('consumer');
  const [one, untouched] = [await customers.meteredKey('100'), await customers.meteredKey('100')];
  await spend(one, '1');
  await spend(untouched, '7');
  await redis.keep('first');
  await untilValid(one);
  await spend(one, '2');
  await adjust(one, '3');
  await spend(one, '0.5');
  await adjust(one, '-0.25');
  await booked(one, 6.25);
  await redis.comeBackAs('first');
  await untilValid(one);
  assert.is(await used(one), '6.25');
  assert.is((await spend(one, '1')).billing.usedCredits, '7.25');
  assert.is((await spend(untouched, '1')).billing.usedCredits, '8');
  await booked(one, 7.25);
  await isExact(one);
  await isExact(untouched);
  await consumer.stop();
});

test('what a consumer held back while Redis was emptied is taken into the balance when it arrives', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const consumer = await world.start('consumer', { CLICKHOUSE_URL: wire.url });
  const one = await customers.meteredKey('100');
  await spend(one, '1');
  await adjust(one, '10');
  await booked(one, 11);
  await wire.cut();
  await spend(one, '2');
  await adjust(one, '-0.5');
  await spend(one, '4');
  await eventually('the consumer holds it', async () => (await pending()) >= 3);
  await redis.admin.flushall();
  await untilValid(one);
  assert.is(Number(await used(one)) <= 11, true);
  await spend(one, '8');
  // The adjustment is known to Postgres: it needs no books to be applied again.
  await eventually('the adjustment is applied again', async () => (await used(one)) === '18.5');
  await wire.mend();
  await eventually('what came late is in the balance', async () => (await used(one)) === '24.5');
  await booked(one, 24.5);
  await isExact(one);
  await consumer.stop();
  await wire.cut();
});

test('a second loss while the first is being rebuilt, and again: nothing counts twice', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const consumer = await world.start('consumer', { CLICKHOUSE_URL: wire.url });
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  await booked(one, 1);
  await redis.keep('second');
  await untilValid(one);
  await wire.cut();
  await spend(one, '2');
  await adjust(one, '0.5');
  await spend(one, '4');
  await eventually('the consumer holds it', async () => (await pending()) >= 3);
  await redis.comeBackAs('second');
  // In the middle of being rebuilt.
  await eventually('a builder is at work', async () => (await redis.admin.hget(keyspace.meta(0), 'build')) !== null);
  await redis.comeBackAs('second');
  await untilValid(one);
  await spend(one, '8');
  await redis.keep('third');
  await untilValid(one);
  await wire.mend();
  await eventually('what came late is in the balance', async () => (await used(one)) === '15.5');
  await spend(one, '16');
  await booked(one, 31.5);
  // Now back to when nothing of that was known, and emptied while that is being mended.
  await redis.comeBackAs('third');
  await eventually('a builder is at work', async () => (await redis.admin.hget(keyspace.meta(0), 'build')) !== null);
  await redis.admin.flushall();
  await untilValid(one);
  assert.is(await used(one), '31.5');
  await redis.comeBackAs('third');
  await untilValid(one);
  await eventually('nothing is missing', async () => (await used(one)) === '31.5');
  await isExact(one);
  await consumer.stop();
  await wire.cut();
});

test('what went down with the outbox is told by name and amount, and never comes back', async () => {
  const first = await world.start('consumer');
  const one = await customers.meteredKey('100');
  await spend(one, '1');
  await booked(one, 1);
  await first.stop();
  await spend(one, '2');
  await spend(one, '3');
  await redis.admin.flushall();
  await untilValid(one);
  assert.is(await used(one), '1');
  const second = await world.start('consumer');
  const { losses, status } = await eventually('the loss is told', async () => {
    const found = await reconciliation(one);
    return found.losses.length > 0 && found.status === 'EXACT' ? found : undefined;
  });
  assert.is(status, 'EXACT');
  assert.equal([losses.length, losses[0].events, losses[0].credits], [1, 2, '5']);
  await spend(one, '1');
  await booked(one, 2);
  assert.is((await reconciliation(one)).status, 'EXACT');
  await second.stop();
});

async function spend({ key }: TestKey, usage: string) {
  const answer = await must(200, customers.verify({ key, billing: { usage } }));
  assert.is(answer.body.status, 'VALID', answer.text);
  return answer.body;
}

let keys = 0;
async function adjust({ meter }: TestKey, amount: string): Promise<void> {
  const { id } = await customers.billing(meter);
  const path = `/api/v1/customer-billing/${id}/adjustment`;
  const headers = { 'Idempotency-Key': `key-${keys++}` };
  await must(201, world.call('post', path, { amount, reason: 'a test' }, { headers }));
}

async function used({ meter }: TestKey): Promise<string> {
  return (await customers.billing(meter)).usedCredits;
}

function untilValid({ key }: TestKey): Promise<unknown> {
  return eventually('verified again', async () => (await customers.verify({ key })).body.status === 'VALID', 15_000);
}

async function booked({ meter }: TestKey, credits: number): Promise<void> {
  await eventually(`${credits} are in the books`, async () => Number(await customers.usage(meter)) === credits);
}

async function reconciliation({ meter }: TestKey) {
  const { id } = await customers.billing(meter);
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`))).body.reconciliation;
}

async function isExact(one: TestKey): Promise<void> {
  const found = await reconciliation(one);
  // What untilValid verified may be lost: it cost nothing.
  const losses = found.losses.filter((loss: { credits: string }) => loss.credits !== '0');
  assert.equal([found.status, found.difference, found.gaps, losses], ['EXACT', '0', [], []], JSON.stringify(found));
  assert.is(found.lastBalance, found.usedCredits);
}

async function pending(): Promise<number> {
  const counts = await Promise.all(
    ALL_SHARDS.map(async (shard) => {
      const [count] = await redis.admin.xpending(keyspace.outbox(shard), OUTBOX_GROUP).catch(() => [0]);
      return Number(count);
    }),
  );
  return counts.reduce((sum, one) => sum + one, 0);
}

test.run();
