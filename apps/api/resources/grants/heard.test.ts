import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { makeCustomers, must, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { makeWorld, once, type Answer } from '../../../../tests/helpers/world.ts';
import { makeDuePeriods } from './schedule-job.ts';

const world = await makeWorld();
const { redis } = world;
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);

const DAY = 86_400_000;

test('nothing is granted, refilled or voided of a record while Redis has yet to hear of an earlier change of it', async () => {
  const changes: [number, (one: Made, grantId: string, scheduleId: string) => Promise<Answer>][] = [
    [200, refill],
    [201, grant],
    [201, schedule],
    [200, voidOf],
    [
      200,
      ({ id }, _, scheduleId) => world.call('delete', `/api/v1/customer-billing/${id}/grant-schedule/${scheduleId}`),
    ],
  ];
  const refused = async (column: string, [status, change]: (typeof changes)[number]) => {
    const one = await record();
    const granted = (await must(201, grant(one))).body.grant.id;
    const made = (await must(201, schedule(one))).body.grantSchedule.id;
    const before = await stateOf(one);
    const unheard = (by: number) =>
      world.sql`update billing_records set ${world.sql(column)} = ${world.sql(column)} + ${by} where id = ${one.id}`;
    await unheard(1);
    const { status: refusal, body, headers } = await change(one, granted, made);
    assert.equal([refusal, body.error?.code, headers.get('retry-after')], [503, 50301, '1']);
    assert.match(body.error.message, 'nothing was stored');
    assert.equal(await stateOf(one), before);
    await unheard(-1);
    await must(status, change(one, granted, made));
  };
  // Each waits a while for Redis to hear.
  await Promise.all(['version', 'last_adjustment'].flatMap((column) => changes.map((one) => refused(column, one))));
});

test('no period of a record is made while Redis has yet to hear of an earlier change of it, and those of others are', async () => {
  const [one, other] = [await record(), await record()];
  for (const each of [one, other]) {
    await must(201, schedule(each));
    await passTime(world, redis, each.id, DAY);
  }
  const unheard = (by: number) =>
    world.sql`update billing_records set last_adjustment = last_adjustment + ${by} where id = ${one.id}`;
  await unheard(1);
  await makePeriods();
  assert.equal([await periodsOf(one), await periodsOf(other)], [3, 4]);
  await unheard(-1);
  await makePeriods();
  assert.is(await periodsOf(one), 4);
});

type Made = { id: string; meter: string };

async function record(): Promise<Made> {
  const { meter } = await customers.meteredKey('10');
  return { meter, id: (await customers.billing(meter)).id };
}

function grant({ id }: Made): Promise<Answer> {
  return world.call('post', `/api/v1/customer-billing/${id}/grant`, { credits: '5' }, { headers: once() });
}

function refill({ meter }: Made): Promise<Answer> {
  const body = { workspaceId, externalMeterId: meter, refill: '3' };
  return world.call('post', '/api/v1/customer-billing/refill', body);
}

/** Makes all periods that are due. */
async function makePeriods(): Promise<void> {
  const stores = { sql: world.sql, redis, metrics: makeMetrics('test'), log: makeLogger('test', 'silent') };
  await makeDuePeriods(stores, new AbortController().signal);
}

function schedule({ id }: Made): Promise<Answer> {
  return world.call('post', `/api/v1/customer-billing/${id}/grant-schedule`, {
    credits: '1',
    every: 'day',
    anchorAt: Date.now() - DAY / 2,
  });
}

function voidOf({ id }: Made, grantId: string): Promise<Answer> {
  return world.call('post', `/api/v1/customer-billing/${id}/grant/${grantId}/void`, { reason: 'r' });
}

async function periodsOf(one: Made): Promise<number> {
  const [, grants] = await stateOf(one);
  return grants.filter(({ scheduleId }: { scheduleId?: string }) => scheduleId !== undefined).length;
}

async function stateOf({ id, meter }: Made) {
  const { grants } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/grants`))).body;
  return [await customers.billing(meter), grants];
}
