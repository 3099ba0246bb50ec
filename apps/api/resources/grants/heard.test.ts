import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { type Sql } from '../../../../shared/stores/postgres.ts';
import { makeCustomers, must, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { hear, lastChange, unhear } from '../../../../tests/helpers/unheard.ts';
import { makeWorld, once, type Answer } from '../../../../tests/helpers/world.ts';
import { makeDuePeriods } from './schedule-job.ts';

// A change that Redis has yet to hear of: it is said so afterwards, and that the sweeper leaves it alone.

const world = await makeWorld();
const { redis } = world;
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test('no credits are added to a record while Redis has yet to hear of the void of a grant to come', async () => {
  const [one, other] = [await record(), await record()];
  await unhear(world, await voided(one, await granted(one, HOUR)));
  const before = await stateOf(one);
  for (const add of [refill, grant, schedule]) {
    refusedForNow(await add(one));
    assert.ok((await add(other)).status < 300);
  }
  assert.equal(await stateOf(one), before);
  await hear(world, redis, one.id);
  for (const add of [refill, grant, schedule]) assert.ok((await add(one)).status < 300);
});

test('the next period of a schedule is made once Redis has heard of the void, and those of other records meanwhile', async () => {
  const [one, other] = [await record(), await record()];
  for (const each of [one, other]) await must(201, schedule(each));
  await unhear(world, await voided(one, await granted(one, DAY + HOUR)));
  for (const each of [one, other]) await passTime(world, redis, each.id, DAY);
  await makePeriods();
  assert.equal([await periodsOf(one), await periodsOf(other)], [3, 4]);
  await hear(world, redis, one.id);
  await makePeriods();
  assert.is(await periodsOf(one), 4);
});

test('no grant to come is voided while Redis has yet to hear of added credits', async () => {
  const one = await record();
  const [pending, begun] = [await granted(one, HOUR), await granted(one, 0)];
  const made = (await must(201, schedule(one))).body.grantSchedule;
  const deletion = () => world.call('delete', `/api/v1/customer-billing/${one.id}/grant-schedule/${made.id}`);
  await must(200, refill(one));
  await unhear(world, await lastChange(world, one.id));
  refusedForNow(await voidOf(one, pending));
  refusedForNow(await deletion());
  await must(200, voidOf(one, begun));
  await hear(world, redis, one.id);
  await must(200, voidOf(one, pending));
  // Voids add nothing: another one need not be heard of.
  await unhear(world, await lastChange(world, one.id));
  await must(200, deletion());
});

test('no grant, refill or void is answered from a balance that lacks what was changed before', async () => {
  const refused = async (change: (one: Made, grantId: string) => Promise<Answer>) => {
    const one = await record();
    const made = await granted(one, 0);
    const before = await stateOf(one);
    await world.sql`update billing_records set version = version + 1 where id = ${one.id}`;
    refusedForNow(await change(one, made));
    assert.equal(await stateOf(one), before);
    await world.sql`update billing_records set version = version - 1 where id = ${one.id}`;
    assert.ok((await change(one, made)).status < 300);
  };
  // Each waits a while for Redis to hear.
  await Promise.all([refused(refill), refused((one) => grant(one)), refused(voidOf)]);
});

type Made = { id: string; meter: string };

async function record(): Promise<Made> {
  const { meter } = await customers.meteredKey('10');
  return { meter, id: (await customers.billing(meter)).id };
}

function grant({ id }: Made, inMs = 0): Promise<Answer> {
  const body = { credits: '5', ...(inMs > 0 && { beginsAt: Date.now() + inMs }) };
  return world.call('post', `/api/v1/customer-billing/${id}/grant`, body, { headers: once() });
}

async function granted(one: Made, inMs: number): Promise<string> {
  return (await must(201, grant(one, inMs))).body.grant.id;
}

function refill({ meter }: Made): Promise<Answer> {
  const body = { workspaceId, externalMeterId: meter, refill: '3' };
  return world.call('post', '/api/v1/customer-billing/refill', body);
}

/** Makes all periods that are due; gives what is logged of those that can't be made. */
async function makePeriods(sql: Sql = world.sql): Promise<string[]> {
  const told: string[] = [];
  const log = makeLogger('test', 'silent');
  log.warn = (_: object, text?: string) => void told.push(text!);
  const stores = { sql, redis, metrics: makeMetrics('test'), log };
  let after: Awaited<ReturnType<typeof makeDuePeriods>>;
  do after = await makeDuePeriods(stores, new AbortController().signal, after);
  while (after);
  return told;
}

function schedule({ id }: Made, anchorAt = Date.now() - DAY / 2): Promise<Answer> {
  return world.call('post', `/api/v1/customer-billing/${id}/grant-schedule`, { credits: '1', every: 'day', anchorAt });
}

function voidOf({ id }: Made, grantId: string): Promise<Answer> {
  return world.call('post', `/api/v1/customer-billing/${id}/grant/${grantId}/void`, { reason: 'r' });
}

/** Voids a grant; gives the transaction of it. */
async function voided(one: Made, grantId: string): Promise<string> {
  await must(200, voidOf(one, grantId));
  return lastChange(world, one.id);
}

function refusedForNow({ status, body, headers }: Answer): void {
  assert.equal([status, body.error?.code, headers.get('retry-after')], [503, 50301, '1']);
  assert.match(body.error.message, 'nothing was stored');
}

async function grantsOf({ id }: Made): Promise<{ scheduleId?: string }[]> {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/grants`))).body.grants;
}

async function periodsOf(one: Made): Promise<number> {
  return (await grantsOf(one)).filter(({ scheduleId }) => scheduleId !== undefined).length;
}

async function stateOf(one: Made) {
  return [await customers.billing(one.meter), await grantsOf(one)];
}
