import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { makeCustomers, must, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { makeWorld, once, type Answer } from '../../../../tests/helpers/world.ts';
import type { StoredChange } from '../../sync/change.ts';
import { applyChanges } from '../../sync/sync.ts';
import { makeDuePeriods } from './schedule-job.ts';

// A change that Redis has yet to hear of: it is said so afterwards, and that the sweeper leaves it alone.

const world = await makeWorld();
const { redis } = world;
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test('while Redis has yet to hear of the void of a grant to come no credits are added to its record, nor is its next period made', async () => {
  const [one, other] = [await record(), await record()];
  for (const each of [one, other]) await must(201, schedule(each));
  await must(200, voidOf(one, await granted(one, DAY + HOUR)));
  await unhear(one);
  const before = await stateOf(one);
  for (const add of [refill, grant]) {
    refusedForNow(await add(one));
    assert.ok((await add(other)).status < 300);
  }
  assert.equal(await stateOf(one), before);
  for (const each of [one, other]) await passTime(world, redis, each.id, DAY);
  await makePeriods();
  assert.equal([await periodsOf(one), await periodsOf(other)], [3, 4]);
  await hear(one);
  await makePeriods();
  assert.is(await periodsOf(one), 4);
  for (const add of [refill, grant]) assert.ok((await add(one)).status < 300);
});

test('no grant to come is voided while Redis has yet to hear of added credits', async () => {
  const one = await record();
  const [pending, begun] = [await granted(one, HOUR), await granted(one, 0)];
  const made = (await must(201, schedule(one))).body.grantSchedule;
  const deletion = () => world.call('delete', `/api/v1/customer-billing/${one.id}/grant-schedule/${made.id}`);
  await must(200, refill(one));
  await unhear(one);
  refusedForNow(await voidOf(one, pending));
  refusedForNow(await deletion());
  await must(200, voidOf(one, begun));
  await hear(one);
  await must(200, voidOf(one, pending));
  // Voids add nothing: another one need not be heard of.
  await unhear(one);
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

/** Redis has yet to hear of the last change of a record, as of an api that dies after its commit: of a time to come for the sweeper. */
async function unhear({ id }: Made): Promise<void> {
  await world.sql`
    update changes set applied_at = null, created_at = now() + interval '1 hour'
    where tx = (select tx from changes where entity_id = ${id} order by tx desc limit 1)`;
}

/** Redis hears of all changes of a record. */
async function hear({ id }: Made): Promise<void> {
  const changes = await world.sql<StoredChange[]>`
    select id, kind, entity_id, shard from changes
    where applied_at is null and tx in (select tx from changes where entity_id = ${id}) order by id`;
  await applyChanges(world.sql, redis, changes);
  await world.sql`update changes set applied_at = now() where id = any(${changes.map((change) => change.id)})`;
}

function refusedForNow({ status, body, headers }: Answer): void {
  assert.equal([status, body.error?.code, headers.get('retry-after')], [503, 50301, '1']);
  assert.match(body.error.message, 'nothing was stored');
}

async function periodsOf(one: Made): Promise<number> {
  const [, grants] = await stateOf(one);
  return grants.filter(({ scheduleId }: { scheduleId?: string }) => scheduleId !== undefined).length;
}

async function stateOf({ id, meter }: Made) {
  const { grants } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/grants`))).body;
  return [await customers.billing(meter), grants];
}
