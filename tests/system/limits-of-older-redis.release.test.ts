import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { TestKey } from '../helpers/customers.ts';
import { metric } from '../helpers/metric.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';
import { eventually, request, wireTo } from '../helpers/world.ts';

// What limits over windows count when their Redis comes back older. This file has a Redis of its own for that.

const test = suite('limits after an older Redis');
let own: RebuildWorld;
let redis: RebuildWorld['redis'];
let world: RebuildWorld['world'];
let customers: RebuildWorld['customers'];

test.before(async () => {
  own = await makeRebuildWorld('older-limits', { BUS: 'redis' });
  ({ redis, world, customers } = own);
});
test.after(() => own?.stop());

const monthly = { name: 'monthly', unit: 'credits', limit: '100', per: 'month' };
const hourly = { ...monthly, name: 'hourly', per: 'hour' };
const named = { ...monthly, name: 'named', unit: 'requests', limit: 50, usageName: 'named' };

async function limitedKey(ofRecord: object[], ofKey: object[], alerts: object[] = []): Promise<TestKey> {
  const meter = await customers.newMeter({ totalCredits: '1000', limits: ofRecord, alerts });
  return { ...(await customers.newKey({ externalMeterId: meter, limits: ofKey })), meter };
}

/** What each limit of a key has left, whole credits or requests. */
async function remaining({ key }: TestKey): Promise<number[]> {
  const answer = await eventually('it is verified', async () => {
    const { body } = await customers.verify({ key });
    return body.status === 'VALID' ? body : undefined;
  });
  return answer.limits.map((limit: { remaining: string }) => Math.floor(Number(limit.remaining)));
}

/** Whether limits have so much left; the first has fallen for a while. */
function isNear([hour, ...others]: number[], [ofHour, ...wanted]: number[]): boolean {
  return String(others) === String(wanted) && hour! >= ofHour! && hour! < ofHour! + 10;
}

const booked = (one: TestKey, credits: number) =>
  eventually(`${credits} are in the books`, async () => Number(await customers.usage(one.meter)) === credits);

async function alertsTold({ meter }: TestKey): Promise<string[]> {
  const path = `/api/v1/customer-billing/${(await customers.billing(meter)).id}/alerts`;
  return (await world.call('get', path)).body.alerts.map(({ name }: { name: string }) => name);
}

async function capture(holdId: string, usage: string): Promise<void> {
  const options = { token: world.team.token, body: { holdId, usage } };
  await eventually('it is captured', async () => {
    const { status } = await request(`${world.verify!.url}/api/v1/usage/capture`, 'post', options);
    if (status !== 503) assert.is(status, 200);
    return status === 200;
  });
}

const nothingWaits = () => eventually('nothing waits', async () => (await own.waiting()) === 0);

test('usage that an older Redis lost counts in limits of key and record once it is settled, each piece once', async () => {
  const wire = await wireTo(world.env.CLICKHOUSE_URL!);
  let consumer = await world.start('consumer');
  const one = await limitedKey(
    [monthly],
    [hourly, named],
    [{ name: 'most', when: { limit: 'monthly', usedPercent: 68 } }],
  );
  await own.spend(one, '1');
  const twice = await customers.hold(one, '7');
  await booked(one, 1);
  await nothingWaits();
  await redis.keep('first');
  await own.untilValid(one);
  await own.spend(one, '30');
  const body = { key: one.key, billing: { usage: '4', usageName: 'named' } };
  for (let calls = 2; calls > 0; calls--) assert.is((await customers.verify(body)).body.status, 'VALID');
  await booked(one, 39);
  await nothingWaits();
  await consumer.stop();
  consumer = await world.start('consumer', { CLICKHOUSE_URL: wire.url });
  await wire.cut();
  await own.spend(one, '20');
  await capture(twice, '6');
  const inHand = () => metric(consumer.url, 'keytally_events_in_hand');
  await eventually('the consumer holds its lines', async () => (await inHand()) >= 2);
  await redis.comeBackAs('first');
  const isSettled = (used: string) => eventually(`${used} used`, async () => (await own.used(one)) === used);
  await isSettled('39');
  await eventually('its limits are raised', async () => isNear(await remaining(one), [54, 48, 54]));
  await capture(twice, '6');
  await own.spend(one, '5');
  assert.ok(isNear(await remaining(one), [50, 48, 50]));
  await wire.mend();
  await isSettled('70');
  await eventually('its limits are raised', async () => isNear(await remaining(one), [30, 48, 30]));
  await eventually('the alert is told', async () => (await alertsTold(one)).includes('most'));
  await own.isExact(one);
  assert.ok(isNear(await remaining(one), [30, 48, 30]));
  await consumer.stop();
  await wire.cut();
});

test('a capture that an older Redis lost counts in limits what it used, not what was held', async () => {
  const consumer = await world.start('consumer');
  const alerts = [
    { name: 'half', when: { limit: 'monthly', usedPercent: 50 } },
    { name: 'most', when: { limit: 'monthly', usedPercent: 70 } },
  ];
  const one = await limitedKey([monthly], [], alerts);
  const holds = [await customers.hold(one, '40'), await customers.hold(one, '8')];
  await nothingWaits();
  await redis.keep('second');
  await own.untilValid(one);
  await capture(holds[0]!, '25');
  const lost = await customers.hold(one, '3');
  await capture(lost, '2');
  await booked(one, 27);
  await nothingWaits();
  await redis.comeBackAs('second');
  await own.untilValid(one);
  await own.spend(one, '20');
  await eventually('it is settled', async () => (await own.used(one)) === '47');
  await eventually('its limits are raised', async () => (await remaining(one))[0] === 45);
  await capture(holds[1]!, '8');
  await own.isExact(one);
  assert.equal(await remaining(one), [45]);
  await eventually('the alert is told', async () => (await alertsTold(one)).length > 0);
  assert.equal(await alertsTold(one), ['half']);
  await consumer.stop();
});

test.run();
