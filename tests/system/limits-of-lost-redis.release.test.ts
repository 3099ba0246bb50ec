import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { dayWithRoom } from '../helpers/day-with-room.ts';
import { eventually } from '../helpers/eventually.ts';
import { untilOpen } from '../helpers/own-redis.ts';
import { must } from '../helpers/customers.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';
import type { Started } from '../helpers/world.ts';

let all: RebuildWorld;
let consumer: Started;

const test = suite('limits after a lost Redis');
test.before(async () => {
  await dayWithRoom('Asia/Kathmandu');
  all = await makeRebuildWorld('limits');
  consumer = await all.world.start('consumer');
});
test.after(() => all?.stop());

test('minute and hour start at what the books have of the last one, calendar windows at their sum', async () => {
  const { customers, redis } = all;
  const spend = { name: 'spend', unit: 'credits', limit: '100', per: 'day', timezone: 'Asia/Kathmandu' };
  const hourly = { name: 'hourly', unit: 'requests', limit: 100, per: 'hour' };
  const minutely = { name: 'minutely', unit: 'credits', limit: '60', per: 'minute' };
  const tokens = { ...spend, name: 'tokens', per: 'month', usageName: 'tokens' };
  const meter = await customers.newMeter({ totalCredits: '1000', limits: [spend, hourly, minutely] });
  const metered = await customers.newKey({ externalMeterId: meter, limits: [tokens, hourly] });
  const unmetered = await customers.newKey({ limits: [spend, minutely] });
  const calls = [
    { key: metered.key, billing: { usage: '5', usageName: 'tokens' } },
    { key: metered.key, billing: { usage: '2.5' } },
    { key: unmetered.key, billing: { usage: '4' } },
    // Nothing is held without a meter: it is a verification.
    { key: unmetered.key, billing: { usage: '3', hold: { expiresIn: 600 } } },
  ];
  const began = performance.now();
  for (const body of calls) assert.is((await must(200, customers.verify(body))).body.status, 'VALID');
  // One credit a second, and one request in 36: no more can have fallen.
  const seconds = () => (performance.now() - began) / 1_000;
  const isHigh = (left: string, used: number) => Number(left) <= 60 - used + seconds();
  await eventually('all events in the books', () => isBooked(meter));

  await redis.admin.flushall();
  const remainingOf = (key: string) =>
    eventually('verified again', async () => {
      const { body } = await customers.verify({ key });
      return body.status === 'VALID' && body.limits.map(({ remaining }: { remaining: unknown }) => remaining);
    });
  const [ofDay, ofKeyByMinute] = await remainingOf(unmetered.key);
  assert.is(ofDay, '93');
  assert.ok(isHigh(ofKeyByMinute, 7), `${ofKeyByMinute} left`);
  const [ofTokens, ofKey, ofSpend, ofRecord, ofRecordByMinute] = await remainingOf(metered.key);
  assert.equal([ofTokens, ofSpend], ['95', '92.5']);
  for (const left of [ofKey, ofRecord]) assert.ok(left >= 96 && left <= 98 + seconds() / 36, `${left}`);
  assert.ok(isHigh(ofRecordByMinute, 7.5), `${ofRecordByMinute} left`);
});

test('open holds count in limits of a Redis that was emptied, and a capture corrects what they took', async () => {
  const { customers, redis, world } = all;
  await untilOpen(redis, world.api.url, world.verify!.url);
  const monthly = { name: 'monthly', unit: 'credits', limit: '100', per: 'month' };
  const hourly = { ...monthly, name: 'hourly', per: 'hour' };
  const meter = await customers.newMeter({ totalCredits: '1000', limits: [monthly] });
  const key = await customers.newKey({ externalMeterId: meter, limits: [hourly] });
  const remaining = () =>
    eventually('verified again', async () => {
      const { body } = await customers.verify({ key: key.key });
      return (
        body.status === 'VALID' &&
        body.limits.map((limit: { remaining: string }) => Math.floor(Number(limit.remaining)))
      );
    });
  const holds = [await customers.hold(key, '30'), await customers.hold(key, '20')];
  assert.equal((await remaining())[1], 50);
  const capture = (holdId: string, usage: string) =>
    must(200, world.call('post', `${world.verify!.url}/api/v1/usage/capture`, { holdId, usage }));
  await capture(holds[1]!, '5');
  assert.equal((await remaining())[1], 65);
  await eventually('all events in the books', () => isBooked(meter));
  await redis.admin.flushall();
  const [ofHour, ofMonth] = await remaining();
  assert.is(ofMonth, 65);
  assert.ok(ofHour >= 65 && ofHour < 80, `${ofHour}`);
  await capture(holds[0]!, '10');
  assert.is((await remaining())[1], 85);
});

test('what no book has of a lost Redis may be passed again, and `losses` tells it', async () => {
  const { customers, redis, world } = all;
  await untilOpen(redis, world.api.url, world.verify!.url);
  const limits = [{ name: 'monthly', unit: 'credits', limit: '10', per: 'month' }];
  const meter = await customers.newMeter({ totalCredits: '1000', limits });
  const one = { ...(await customers.newKey({ externalMeterId: meter })), meter };
  await all.spend(one, '8');
  await eventually('all events in the books', () => isBooked(meter));
  await consumer.stop();
  await all.spend(one, '2');
  const refused = (await must(200, customers.verify({ key: one.key, billing: { usage: '1' } }))).body;
  assert.equal([refused.reason, refused.limitedBy.name], ['LIMIT_REACHED', 'monthly']);
  await redis.admin.flushall();
  await all.untilValid(one);
  await all.spend(one, '2');
  consumer = await world.start('consumer');
  const path = `/api/v1/customer-billing/${(await customers.billing(meter)).id}/reconciliation`;
  const { losses } = await eventually('the loss is named', async () => {
    const found = (await world.call('get', path)).body.reconciliation;
    return found?.losses.length > 0 && found.status === 'EXACT' ? found : undefined;
  });
  assert.equal([losses.length, losses[0].credits], [1, '2']);
});

test.run();

/** Whether the outbox of every shard is empty: its events have left it only once they were in the books. */
async function isBooked(meter: string): Promise<boolean> {
  const waiting = await all.redis.admin.eval(
    `local sum = 0 for i = 0, 63 do sum = sum + redis.call('XLEN', string.format('{%02d}:outbox', i)) end return sum`,
    0,
  );
  return waiting === 0 && (await all.customers.usage(meter)) !== undefined;
}
