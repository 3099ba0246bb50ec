import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { leaveVoid } from '../../../../tests/helpers/dead-void.ts';
import { passTime, recordOf } from '../../../../tests/helpers/pass-time.ts';
import { hear, lastChange, unhear } from '../../../../tests/helpers/unheard.ts';
import { connectRedisOf } from '../../../../tests/helpers/world-redis.ts';
import { joinWorld, once, type World } from '../../../../tests/helpers/world.ts';
import { copyRecord } from '../../sync/ended-grants.ts';

// Voids that Redis hears of later than Postgres: an api that dies after the commit leaves them to the sweeper. A restore from a
// backup brings such back, too.

const test = suite('voids that Redis hears of late');
const HOUR = 3_600_000;
let world: World;
let redis: ShardedRedis;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await joinWorld();
  redis = await connectRedisOf(world);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'granted' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('a void of which Redis hears when the grant has ended leaves a record that can be proved, whatever was copied before', async () => {
  const proved = async (isCopied: boolean) => {
    const { key, id } = await record();
    const expiresAt = Date.now() + HOUR;
    const first = await grant(id, { credits: '2', expiresAt });
    const last = await grant(id, { credits: '3', expiresAt });
    await spend(key, '4');
    await leaveUnheardVoid(id, first);
    await passTime(world, redis, id, 2 * HOUR);
    if (isCopied)
      await world.sql`update grants set used_micros = 1000000, held_micros = 2000000, told_epoch = 0, told_turn = 9 where id = ${first}`;
    await hear(world, redis, id);
    assert.equal(await proof(id), ['EXACT', '15', '1', '0']);
    assert.equal(await numbers(id, [first, last]), ['VOIDED 2 0 0', 'EXPIRED 2 1 0']);
  };
  await Promise.all([proved(false), proved(true)]);
});

test('a grant that begins before Redis hears that it was voided is voided, ended or not, whatever credits follow', async () => {
  const proved = async (lastsMs: number | undefined, add?: (of: Made) => Promise<unknown>) => {
    const made = await record();
    const { id } = made;
    const beginsAt = Date.now() + HOUR;
    const body = lastsMs ? { expiresAt: beginsAt + lastsMs } : { priority: 50 };
    const one = await grant(id, { credits: '5', beginsAt, ...body });
    await leaveUnheardVoid(id, one);
    await passTime(world, redis, id, 3 * HOUR);
    assert.is((await billingOf(id)).totalCredits, '15', 'it has begun');
    await hear(world, redis, id);
    await add?.(made);
    assert.equal(await proof(id), ['EXACT', add ? '18' : '15', '5', '0']);
    assert.equal(await numbers(id, [one]), ['VOIDED 0 5 0']);
  };
  await Promise.all([
    proved(HOUR),
    proved(9 * HOUR),
    proved(undefined, ({ id }) => grant(id, { credits: '3', priority: 50 })),
    proved(undefined, refill),
  ]);
});

test('a record is proved after the end of a grant that was voided before it began', async () => {
  const { id } = await record();
  const beginsAt = Date.now() + HOUR;
  const one = await grant(id, { credits: '5', beginsAt, expiresAt: beginsAt + HOUR });
  await must(200, world.call('post', `/api/v1/customer-billing/${id}/grant/${one}/void`));
  await grant(id, { credits: '1', expiresAt: Date.now() + 9 * HOUR });
  await passTime(world, redis, id, 3 * HOUR);
  assert.equal(await proof(id), ['EXACT', '11', '0', '0']);
  assert.equal(await numbers(id, [one]), ['VOIDED 0 0 0']);
});

test.run();

type Made = { id: string; key: string; meter: string };

async function record(): Promise<Made> {
  const { key, meter } = await customers.meteredKey('10');
  return { key, meter, id: (await customers.billing(meter)).id };
}

async function grant(id: string, body: object): Promise<string> {
  const given = { priority: 10, ...body };
  const answer = world.call('post', `/api/v1/customer-billing/${id}/grant`, given, { headers: once() });
  return (await must(201, answer)).body.grant.id;
}

function refill({ meter }: Made) {
  const body = { workspaceId, externalMeterId: meter, refill: '3' };
  return must(200, world.call('post', '/api/v1/customer-billing/refill', body));
}

function spend(key: string, usage: string) {
  return must(200, customers.verify({ key, billing: { usage } }));
}

async function leaveUnheardVoid(id: string, grantId: string): Promise<void> {
  await leaveVoid(world, id, grantId);
  await unhear(world, await lastChange(world, id));
}

/** What reconciling says of all grants together, of which all that ended is copied. */
async function proof(id: string): Promise<string[]> {
  await copyRecord(world.sql, redis, await recordOf(world.sql, id));
  await world.booked();
  const path = `/api/v1/customer-billing/${id}/reconciliation`;
  const { status, grants } = (await must(200, world.call('get', path))).body.reconciliation;
  return [status, grants.grantedCredits, grants.grantsExpiredCredits, grants.difference];
}

async function billingOf(id: string) {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}`))).body.billing;
}

async function numbers(id: string, of: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const one of of) {
    const { body } = await must(200, world.call('get', `/api/v1/customer-billing/${id}/grant/${one}`));
    const { state, usedCredits, expiredCredits, remainingCredits } = body.grant;
    found.push(`${state} ${usedCredits} ${expiredCredits} ${remainingCredits}`);
  }
  return found;
}
