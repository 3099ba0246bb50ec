import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { TestKey } from '../helpers/customers.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { metric } from '../helpers/metric.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';
import { eventually, request, wireTo, type Answer } from '../helpers/world.ts';

// What becomes of holds when their Redis is emptied or comes back older. This file has a Redis of its own for that.

const test = suite('holds of a Redis that was lost');
let own: RebuildWorld;
let redis: RebuildWorld['redis'];
let world: RebuildWorld['world'];
let customers: RebuildWorld['customers'];

test.before(async () => {
  own = await makeRebuildWorld('lost-holds', { BUS: 'redis' });
  ({ redis, world, customers } = own);
});
test.after(() => own?.stop());

function hold(key: TestKey, usage: string, expiresIn = 600, onExpiry = 'release'): Promise<string> {
  return customers.hold(key, usage, { expiresIn, onExpiry });
}

function ask(what: string, body: object): Promise<Answer> {
  return request(`${world.verify!.url}/api/v1/usage/${what}`, 'post', { token: world.team.token, body });
}

async function capture(holdId: string, usage: string): Promise<Answer> {
  return eventually('it is captured', async () => {
    const answer = await ask('capture', { holdId, usage });
    return answer.status === 503 ? undefined : answer;
  });
}

async function shardOf({ meter }: TestKey): Promise<number> {
  const { id } = await customers.billing(meter);
  const [row] = await world.sql<[{ shard: number }]>`select shard from billing_records where id = ${id}`;
  return row.shard;
}

async function amounts({ meter }: TestKey): Promise<string> {
  const { usedCredits, heldCredits } = await customers.billing(meter);
  return `${usedCredits} used ${heldCredits} held`;
}

/** Waits for the amounts, and for books that prove them, reserved credits too. */
async function proved(one: TestKey, wanted: string): Promise<void> {
  await eventually(wanted, async () => (await amounts(one)) === wanted).catch(async (error: Error) => {
    throw new Error(`${error.message}: it has ${await amounts(one)}`);
  });
  await eventually('the books prove it', async () => {
    const { status, heldDifference } = await own.reconciliation(one);
    return status === 'EXACT' && heldDifference === '0';
  });
  assert.is(await amounts(one), wanted);
}

const nothingWaits = () => eventually('nothing waits', async () => (await own.waiting()) === 0);

test('an older Redis gets back the holds that it lost, and closes those that the books have settled', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  const [captured, kept] = [await hold(one, '10'), await hold(one, '20')];
  await nothingWaits();
  await redis.keep('first');
  await own.untilValid(one);
  assert.is((await capture(captured, '7')).status, 200);
  const [later, both] = [await hold(one, '40'), await hold(one, '80')];
  assert.is((await capture(both, '5')).status, 200);
  await proved(one, '12 used 60 held');
  await redis.comeBackAs('first');
  await own.untilValid(one);
  await proved(one, '12 used 60 held');
  assert.is((await capture(kept, '1')).status, 200);
  assert.is((await capture(later, '2')).status, 200);
  await proved(one, '15 used 0 held');
  await consumer.stop();
});

test('an emptied Redis gets its open holds from the books, and ends them on time', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  const [first, short, done] = [await hold(one, '10'), await hold(one, '20', 2, 'charge'), await hold(one, '40')];
  assert.is((await ask('extend', { holdId: first, expiresIn: 900 })).status, 200);
  assert.is((await capture(done, '4')).status, 200);
  await nothingWaits();
  await redis.admin.flushall();
  await own.untilValid(one);
  await proved(one, '24 used 10 held');
  assert.is((await capture(short, '3')).body.capture.late, true);
  assert.is((await capture(first, '1')).status, 200);
  await proved(one, '8 used 0 held');
  await consumer.stop();
});

test('a hold that Redis lost and the books have not yet is captured at once by its id, once', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const consumer = await world.start('consumer', { CLICKHOUSE_URL: wire.url });
  const one = await customers.meteredKey('1000');
  await own.spend(one, '1');
  await own.booked(one, 1);
  await nothingWaits();
  await redis.keep('second');
  await own.untilValid(one);
  await nothingWaits();
  await wire.cut();
  const holdId = await hold(one, '30');
  const inHand = () => metric(consumer.url, 'keytally_events_in_hand');
  await eventually('the consumer holds its lines', async () => (await inHand()) === 2);
  await redis.comeBackAs('second');
  await own.untilValid(one);
  const { body } = await capture(holdId, '9');
  assert.equal([body.capture?.usage, body.capture?.late], ['9', false]);
  assert.is((await capture(holdId, '9')).status, 200);
  assert.is((await capture(holdId, '8')).body.error.code, 40951);
  assert.is(await amounts(one), '10 used 0 held');
  await wire.mend();
  await proved(one, '10 used 0 held');
  await consumer.stop();
  await wire.cut();
});

test('a hold that Redis lost counts in limits once the books have it, captured or not, and tells the alert that it crosses', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  const consumer = await world.start('consumer', { CLICKHOUSE_URL: wire.url });
  const limits = [{ name: 'monthly', unit: 'credits', limit: '100', per: 'month' }];
  const alerts = [{ name: 'third', when: { limit: 'monthly', usedPercent: 33 } }];
  const meter = await customers.newMeter({ totalCredits: '1000', limits, alerts });
  const one = { ...(await customers.newKey({ externalMeterId: meter })), meter };
  await own.spend(one, '1');
  await own.booked(one, 1);
  await nothingWaits();
  await redis.keep('third');
  await own.untilValid(one);
  await nothingWaits();
  await wire.cut();
  const [kept, captured] = [await hold(one, '20'), await hold(one, '8')];
  const inHand = () => metric(consumer.url, 'keytally_events_in_hand');
  await eventually('the consumer holds its lines', async () => (await inHand()) === 2);
  await redis.comeBackAs('third');
  await own.untilValid(one);
  assert.is((await capture(captured, '4')).status, 200);
  const { limits: told } = await own.spend(one, '10');
  assert.is(told[0].remaining, '89');
  await wire.mend();
  await proved(one, '15 used 20 held');
  await eventually('its limit is raised', async () => (await own.spend(one, '0')).limits[0].remaining === '65');
  const path = `/api/v1/customer-billing/${(await customers.billing(meter)).id}/alerts`;
  await eventually('it is told', async () => (await world.call('get', path)).body.alerts.length === 1);
  assert.is((await capture(kept, '5')).status, 200);
  assert.is((await own.spend(one, '0')).limits[0].remaining, '80');
  await consumer.stop();
  await wire.cut();
});

test('of a hold whose first line alone is lost the books add up all the same, and again once that line comes late', async () => {
  for (const isFirst of [true, false]) {
    const one = await customers.meteredKey('1000');
    // The line of the first hold stands beside the turn that makes the account.
    if (!isFirst) assert.is((await capture(await hold(one, '5'), '5')).status, 200);
    await own.spend(one, '5');
    const outbox = keyspace.outbox(await shardOf(one));
    const before = await redis.admin.xlen(outbox);
    const [released, captured] = [await hold(one, '30'), await hold(one, '20')];
    const opened = (await redis.admin.xrange(outbox, '-', '+')).slice(before);
    await redis.admin.xdel(outbox, ...opened.map(([id]) => id));
    assert.is((await ask('release', { holdId: released })).status, 200);
    assert.is((await capture(captured, '9')).status, 200);
    const used = isFirst ? 14 : 19;
    const consumer = await world.start('consumer');
    await own.booked(one, used);
    await nothingWaits();
    await redis.admin.flushall();
    await own.untilValid(one);
    await proved(one, `${used} used 0 held`);
    for (const [, fields] of opened) await redis.admin.xadd(outbox, '*', ...fields);
    await nothingWaits();
    await proved(one, `${used} used 0 held`);
    await consumer.stop();
  }
});

test('a capture that Redis lost and the client repeats is debited once', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  const [captured, charged] = [await hold(one, '30'), await hold(one, '20', 1, 'charge')];
  assert.is((await capture(captured, '9')).status, 200);
  await proved(one, '29 used 0 held');
  await nothingWaits();
  await redis.admin.flushall();
  await own.untilValid(one);
  assert.is((await capture(captured, '9')).status, 200);
  assert.is((await capture(charged, '5')).status, 200);
  await proved(one, '14 used 0 held');
  assert.is((await capture(captured, '9')).status, 200);
  await proved(one, '14 used 0 held');
  await consumer.stop();
});

test.run();
