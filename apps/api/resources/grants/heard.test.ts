import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { connectTestRedis, eventually, makeWorld, type Answer, type World } from '../../../../tests/helpers/world.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../../shared/runtime/metrics.ts';
import { connectPostgres } from '../../../../shared/stores/postgres.ts';
import { startScheduling } from './schedule-job.ts';

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
  await eventually('the other one is made', async () => (await periodsOf(other)) === 4);
  const isDue = async () =>
    (await world.sql`select from grant_schedules where billing_id = ${one.id} and next_at < ${Date.now() - 2_000}`)
      .length;
  await eventually('it is due for some rounds', isDue);
  assert.is(await periodsOf(one), 3);
  await hear(one);
  await eventually('it is made', async () => (await periodsOf(one)) === 4);
});

test('however many schedules must wait or fail, those behind them get their periods', async () => {
  const [one, other] = [await record(), await record()];
  const { id } = (await must(201, schedule(one, Date.now() - 5.5 * DAY))).body.grantSchedule;
  await unhear(await voided(one, await granted(one, HOUR)));
  // More than a round takes at a time, all due for longer than the other one, and the first of them can't be made at all.
  await world.sql`
    insert into grant_schedules
    select (jsonb_populate_record(made, jsonb_build_object(
      'id', 'sched_waiting_' || i, 'next_at', i, 'next_period', 5,
      'timezone', case when i = 1 then 'Nowhere' else timezone end))).*
    from grant_schedules made, generate_series(1, 250) i where id = ${id}`;
  await inTime(2_500, async (turn) => must(201, schedule(other, turn - 5 * DAY)));
  await eventually('the next period is made', async () => (await periodsOf(other)) === 4);
  const waiting = () => world.sql`select from grant_schedules where id like 'sched_waiting_%' and next_at < 1000`;
  assert.is((await waiting()).length, 250);
  assert.equal(await toldAndStopped(true), ['making periods of grant schedules failed; trying again']);
  await world.sql`update grant_schedules set timezone = 'Nowhere' where id like 'sched_waiting_%'`;
  assert.equal(await toldAndStopped(false), ['the periods of a grant schedule can not be made now; trying again']);
  await world.sql`delete from grant_schedules where id like 'sched_waiting_%'`;
  await hear(one);
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

/** What rounds log that are stopped with their first line, also where Postgres takes no changes, as a standby does. */
async function toldAndStopped(readOnly: boolean): Promise<string[]> {
  const url = new URL(world.env.DATABASE_URL!);
  if (readOnly) url.searchParams.set('default_transaction_read_only', 'on');
  const sql = connectPostgres(url.href, { max: 1, everyTeam: true });
  const redis = await connectTestRedis();
  const told: string[] = [];
  const log = makeLogger('test', 'silent');
  let stopped: Promise<void> | undefined;
  log.warn = (_: object, text?: string) => {
    told.push(text!);
    stopped ??= loop.stop();
  };
  const loop = startScheduling({ sql, redis, metrics: makeMetrics('test'), log });
  await eventually('a round has failed', async () => stopped !== undefined);
  await stopped;
  await Promise.all([sql.end(), redis.close()]);
  return told;
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

async function periodsOf(one: Made): Promise<number> {
  return (await grantsOf(one)).filter(({ scheduleId }) => scheduleId !== undefined).length;
}

async function stateOf(one: Made) {
  return [await customers.billing(one.meter), await grantsOf(one)];
}
