import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, type Answer, type World } from '../../../../tests/helpers/world.ts';

// A change that Redis has yet to hear of: it is said so afterwards, and that the sweeper leaves it alone.

const test = suite('voids and credits that Redis has yet to hear of');
let world: World;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await makeWorld();
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'granted' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test('no credits are added to a record while Redis has yet to hear of the void of a grant to come', async () => {
  const [one, other] = [await record(), await record()];
  await unhear(await voided(one, await granted(one, HOUR)));
  const before = await stateOf(one);
  for (const add of [refill, grant, schedule]) {
    refusedForNow(await add(one));
    assert.ok((await add(other)).status < 300);
  }
  assert.equal(await stateOf(one), before);
  await hear(one);
  for (const add of [refill, grant, schedule]) assert.ok((await add(one)).status < 300);
});

test('the void of a grant that has begun keeps no credits from its record', async () => {
  const one = await record();
  await unhear(await voided(one, await granted(one, 0)));
  for (const add of [refill, grant, schedule]) assert.ok((await add(one)).status < 300);
});

test('the next period of a schedule is made once Redis has heard of the void, and those of other records meanwhile', async () => {
  const [one, other] = await inTime(2_500, async (turn) => {
    const both = [await record(), await record()] as const;
    for (const each of both) await must(201, schedule(each, turn - 5 * DAY));
    await unhear(await voided(both[0], await granted(both[0], HOUR)));
    return both;
  });
  const periods = async (of: Made) => (await grantsOf(of)).filter(({ scheduleId }) => scheduleId !== undefined).length;
  await eventually('the other one is made', async () => (await periods(other)) === 4);
  const isDue = async () =>
    (await world.sql`select from grant_schedules where billing_id = ${one.id} and next_at < ${Date.now() - 2_000}`)
      .length;
  await eventually('it is due for some rounds', isDue);
  assert.is(await periods(one), 3);
  await hear(one);
  await eventually('it is made', async () => (await periods(one)) === 4);
});

test('no grant to come is voided while Redis has yet to hear of added credits', async () => {
  const one = await record();
  const [pending, begun] = [await granted(one, HOUR), await granted(one, 0)];
  const made = (await must(201, schedule(one))).body.grantSchedule;
  const deletion = () => world.call('delete', `/api/v1/customer-billing/${one.id}/grant-schedule/${made.id}`);
  await must(200, refill(one));
  await unhear(await lastChange(one));
  refusedForNow(await voidOf(one, pending));
  refusedForNow(await deletion());
  await must(200, voidOf(one, begun));
  await hear(one);
  await must(200, voidOf(one, pending));
  // Voids add nothing: another one need not be heard of.
  await unhear(await lastChange(one));
  await must(200, deletion());
});

test('no grant, refill or void is answered from a balance that lacks what was changed before', async () => {
  const one = await record();
  const made = await granted(one, 0);
  const before = await stateOf(one);
  await world.sql`update billing_records set version = version + 1 where id = ${one.id}`;
  for (const change of [refill, grant, () => voidOf(one, made)]) refusedForNow(await change(one));
  assert.equal(await stateOf(one), before);
  await world.sql`update billing_records set version = version - 1 where id = ${one.id}`;
  for (const change of [refill, grant, () => voidOf(one, made)]) assert.ok((await change(one)).status < 300);
});

test.run();

type Made = { id: string; meter: string };

async function record(): Promise<Made> {
  const { meter } = await customers.meteredKey('10');
  return { meter, id: (await customers.billing(meter)).id };
}

let keys = 0;

function grant({ id }: Made, inMs = 0): Promise<Answer> {
  const headers = { 'Idempotency-Key': `grant-${keys++}` };
  const body = { credits: '5', ...(inMs > 0 && { beginsAt: Date.now() + inMs }) };
  return world.call('post', `/api/v1/customer-billing/${id}/grant`, body, { headers });
}

async function granted(one: Made, inMs: number): Promise<string> {
  return (await must(201, grant(one, inMs))).body.grant.id;
}

function refill({ meter }: Made): Promise<Answer> {
  const body = { workspaceId, externalMeterId: meter, refill: '3' };
  return world.call('post', '/api/v1/customer-billing/refill', body);
}

function schedule({ id }: Made, anchorAt = Date.now()): Promise<Answer> {
  return world.call('post', `/api/v1/customer-billing/${id}/grant-schedule`, { credits: '1', every: 'day', anchorAt });
}

function voidOf({ id }: Made, grantId: string): Promise<Answer> {
  return world.call('post', `/api/v1/customer-billing/${id}/grant/${grantId}/void`);
}

/** Voids a grant; gives the transaction of it. */
async function voided(one: Made, grantId: string): Promise<string> {
  await must(200, voidOf(one, grantId));
  return lastChange(one);
}

/** The transaction that changed a record last. */
async function lastChange({ id }: Made): Promise<string> {
  const [row] = await world.sql<[{ tx: string }]>`
    select tx::text from changes where entity_id = ${id} order by changes.tx desc limit 1`;
  return row.tx;
}

/** Redis has yet to hear of what a transaction changed. */
async function unhear(tx: string): Promise<void> {
  await world.sql`
    update changes set applied_at = null, created_at = now() + interval '1 hour' where tx = ${tx}::text::xid8`;
}

/** Redis has heard of all changes of a record. */
async function hear({ id }: Made): Promise<void> {
  await world.sql`
    update changes set applied_at = now() where applied_at is null and tx in (select tx from changes where entity_id = ${id})`;
}

function refusedForNow({ status, body, headers }: Answer): void {
  assert.equal([status, body.error?.code, headers.get('retry-after')], [503, 50301, '1']);
  assert.match(body.error.message, 'nothing was stored');
}

async function grantsOf({ id }: Made): Promise<{ scheduleId?: string }[]> {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/grants`))).body.grants;
}

async function stateOf(one: Made) {
  return [await customers.billing(one.meter), await grantsOf(one)];
}
