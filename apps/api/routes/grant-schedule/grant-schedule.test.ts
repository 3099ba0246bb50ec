import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { metric } from '../../../../tests/helpers/metric.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { connectRedisOf } from '../../../../tests/helpers/world-redis.ts';
import { joinWorld, type World } from '../../../../tests/helpers/world.ts';
import { makeDuePeriods } from '../../resources/grants/schedule-job.ts';

// The contract's lines on schedules of grants. When periods begin is shared/values/calendar's.

const test = suite('grant schedules');
const DAY = 86_400_000;
const at = (text: string) => Temporal.Instant.from(text).epochMilliseconds;
let world: World;
let redis: ShardedRedis;
let customers: Customers;

test.before(async () => {
  world = await joinWorld();
  redis = await connectRedisOf(world);
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'scheduled' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('a schedule grants for the running period in full, from now, and for the next two before they begin', async () => {
  const { id, meter } = await record();
  const now = Date.now();
  const asked = { credits: '5', every: 'day', anchorAt: now - 10.5 * DAY, name: 'daily', priority: 20 };
  const made = await schedule(id, asked);
  assert.match(made.id, /^sched_/);
  const { id: _, createdAt: __, ...rest } = made;
  assert.equal(rest, { ...asked, billingId: id, timezone: 'UTC' });
  const grants = await grantsOf(id);
  assert.equal(
    grants.map((one) => [one.credits, one.state, one.expiresAt - now, one.priority, one.name, one.scheduleId]),
    [0.5, 1.5, 2.5].map((days, i) => ['5', i === 0 ? 'ACTIVE' : 'PENDING', days * DAY, 20, 'daily', made.id]),
  );
  const [running, ...next] = grants.map(({ beginsAt }) => beginsAt - now);
  assert.equal(next, [0.5 * DAY, 1.5 * DAY]);
  // Redis's clock may be apart from ours.
  assert.ok(running! > -5_000 && running! < DAY / 4, `${running} ms`);
  assert.equal(await amountsOf(meter), ['5', '0', '5', '0', '0']);
  assert.equal(await schedulesOf(id), [made]);
});

test('periods are those of the time zone, and no period begins at or after endsAt; one that has begun keeps its end', async () => {
  const { id } = await record();
  // Berlin skips 02:00 to 03:00 on 26 March 2028.
  const anchorAt = at('2028-03-25T02:30:00+01:00');
  await schedule(id, { credits: '1', every: 'day', timezone: 'Europe/Berlin', anchorAt });
  assert.equal(
    (await grantsOf(id)).flatMap(({ beginsAt, expiresAt }) => [beginsAt, expiresAt]),
    ['2028-03-25T01:30Z', '2028-03-26T01:00Z', '2028-03-26T01:00Z', '2028-03-27T00:30Z'].map(at),
  );
  const ending = await record();
  const now = Date.now();
  await schedule(ending.id, { credits: '1', every: 'day', anchorAt: now - DAY / 2, endsAt: now + DAY });
  assert.equal(
    (await grantsOf(ending.id)).map((one) => one.expiresAt - now),
    [DAY / 2, 1.5 * DAY],
  );
});

test('a period turns though no api has made the next one; with rollover its grant lives one period longer with at most maxCredits, drawn by its new end', async () => {
  const { key, id, meter } = await record();
  await schedule(id, { credits: '10', every: 'day', anchorAt: Date.now() - 4.5 * DAY, rollover: { maxCredits: '4' } });
  await spend(key, '3');
  await passTime(world, redis, id, DAY);
  assert.equal(await amountsOf(meter), ['20', '3', '14', '0', '3']);
  await makePeriods();
  assert.equal(await numbersOf(id), ['ACTIVE 3 3 4', 'ACTIVE 0 0 10', 'PENDING 0 0 10', 'PENDING 0 0 10']);
  const [first, second] = await grantsOf(id);
  assert.is(first!.expiresAt, second!.expiresAt - DAY);
  await spend(key, '5');
  assert.equal((await numbersOf(id)).slice(0, 2), ['USED_UP 7 3 0', 'ACTIVE 1 0 9']);
  await makePeriods();
  assert.is((await grantsOf(id)).length, 4, 'a period is made once');
});

test('deleting a schedule voids the periods to come; the running one keeps its end', async () => {
  const { id, meter } = await record();
  const made = await schedule(id, { credits: '5', every: 'month', rollover: { maxCredits: '1' } });
  const [running] = await grantsOf(id);
  const path = `${pathOf(id)}/${made.id}`;
  assert.equal((await must(200, world.call('delete', path))).body.grantSchedule, made);
  assert.equal(await numbersOf(id), ['ACTIVE 0 0 5', 'VOIDED 0 0 0', 'VOIDED 0 0 0']);
  assert.equal((await grantsOf(id))[0], running);
  assert.equal(await amountsOf(meter), ['5', '0', '5', '0', '0']);
  assert.equal(await schedulesOf(id), []);
  assert.is((await world.call('delete', path)).body.error.code, 40431);
});

test('a period that would pass 9000000000 is not granted, and the audit log and a metric tell it', async () => {
  const { id, meter } = await record();
  const made = await schedule(id, { credits: '3000000000', every: 'day', anchorAt: Date.now() - 4.5 * DAY });
  const counted = () => metric(world.api.url, 'keytally_periods_not_granted_total');
  const before = await counted();
  await passTime(world, redis, id, DAY);
  const ours = await makePeriods();
  assert.is((await counted()) - before + ours, 1);
  const { auditLog } = (await must(200, world.call('get', `/api/v1/audit-log?resourceId=${made.id}`))).body;
  const line = auditLog.find((one: { operation: string }) => one.operation === 'grant schedule');
  assert.equal(line.after.notGranted, { period: 7, beginsAt: line.after.anchorAt + 7 * DAY });
  assert.is((await grantsOf(id)).length, 3);
  assert.is((await amountsOf(meter))[0], '6000000000');
});

test('wrong schedules are refused, and an eleventh one of a record', async () => {
  const { id } = await record();
  for (const body of [
    { credits: '0', every: 'day' },
    { credits: '1', every: 'hour' },
    { credits: '1' },
    { credits: '1', every: 'day', timezone: 'Mars/Olympus' },
    { credits: '1', every: 'day', timezone: '+05:45' },
    { credits: '1', every: 'day', anchorAt: -1 },
    { credits: '1', every: 'day', endsAt: Date.now() - 1 },
    { credits: '1', every: 'day', rollover: {} },
    { credits: '1', every: 'day', rollover: { maxCredits: '-1' } },
    { credits: '1', every: 'day', priority: 101 },
  ])
    assert.is((await must(400, world.call('post', pathOf(id), body))).body.error.code, 40001, JSON.stringify(body));
  const daily = { credits: '1', every: 'day', anchorAt: at('2100-01-01T00:00Z') };
  for (let i = 0; i < 10; i++) await schedule(id, daily);
  assert.is((await must(409, world.call('post', pathOf(id), daily))).body.error.code, 40943);
});

test.run();

type Grant = Record<
  'credits' | 'state' | 'name' | 'scheduleId' | 'usedCredits' | 'expiredCredits' | 'remainingCredits',
  string
> &
  Record<'beginsAt' | 'expiresAt' | 'priority', number>;

/** Makes what is due, beside the api; gives how many periods have no grant. */
async function makePeriods(): Promise<number> {
  const metrics = makeMetrics('test');
  const stores = { sql: world.sql, redis, metrics, log: makeLogger('test', 'error') };
  await makeDuePeriods(stores, new AbortController().signal);
  const { values } = await metrics.periodsNotGranted.get();
  return values.reduce((sum, { value }) => sum + value, 0);
}

async function record() {
  const made = await customers.meteredKey('0');
  return { ...made, id: (await customers.billing(made.meter)).id };
}

function pathOf(id: string): string {
  return `/api/v1/customer-billing/${id}/grant-schedule`;
}

async function schedule(id: string, body: object) {
  return (await must(201, world.call('post', pathOf(id), body))).body.grantSchedule;
}

async function schedulesOf(id: string) {
  return (await must(200, world.call('get', `${pathOf(id)}s`))).body.grantSchedules;
}

async function grantsOf(id: string): Promise<Grant[]> {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/grants`))).body.grants;
}

async function numbersOf(id: string): Promise<string[]> {
  return (await grantsOf(id)).map(
    ({ state, usedCredits, expiredCredits, remainingCredits }) =>
      `${state} ${usedCredits} ${expiredCredits} ${remainingCredits}`,
  );
}

function spend(key: string, usage: string) {
  return must(200, customers.verify({ key, billing: { usage } }));
}

async function amountsOf(meter: string): Promise<string[]> {
  const billing = (await customers.billing(meter)) as unknown as Record<string, string>;
  return ['total', 'used', 'available', 'held', 'expired'].map((name) => billing[`${name}Credits`]!);
}
