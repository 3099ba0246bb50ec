import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { leaveVoid } from '../../../../tests/helpers/dead-void.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

// Voids that Redis hears of later than Postgres: an api that dies after the commit leaves them to the sweeper, which takes up what
// is older than 3 s. A restore from a backup brings such back, too.

const test = suite('voids that Redis hears of late');
let world: World;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'granted' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

const HOUR = 3_600_000;
// A class of which nothing is known is asked for again for a minute, and so long its record is not proved.
const SOON_MS = 40_000;

test('a record is proved soon after a void of which Redis hears when the grant has ended', async () => {
  const { id, first, last } = await inTime(2_500, async (end) => {
    const { key, id } = await record();
    const [first, last] = [await grant(id, end, 2), await grant(id, end, 3)];
    await spend(key, '4');
    // The sweeper takes it up 3 s later.
    await sleep(end - 2_000 - Date.now());
    await leaveVoid(world, id, first);
    return { id, first, last };
  });
  assert.equal(await proof(id), ['EXACT', '15', '1', '0']);
  assert.equal(await numbers(id, [first, last]), ['VOIDED 2 0 0', 'EXPIRED 2 1 0']);
});

test('what a void is said to have given and to keep is corrected once Redis hears of it, whatever was copied before', async () => {
  const { id, one } = await inTime(2_500, async (end) => {
    const { key, id } = await record();
    const one = await grant(id, end, 5);
    await spend(key, '4');
    // The sweeper takes it up 3 s later.
    await sleep(end - 2_000 - Date.now());
    await leaveVoid(world, id, one);
    return { id, one };
  });
  await world.sql`update grants set used_micros = 1000000, held_micros = 2000000, told_epoch = 0, told_turn = 9 where id = ${one}`;
  assert.equal(await proof(id), ['EXACT', '15', '1', '0']);
  assert.equal(await numbers(id, [one]), ['VOIDED 4 1 0']);
});

test('a grant that begins before Redis hears that it was voided is proved with the others, ended or not', async () => {
  for (const lastsMs of [800, HOUR]) {
    const { id, one } = await inTime(700, async (beginsAt) => {
      const { id } = await record();
      const one = await grant(id, beginsAt + lastsMs, 5, beginsAt);
      // The sweeper takes it up 3 s later.
      await sleep(beginsAt - 2_000 - Date.now());
      await leaveVoid(world, id, one);
      return { id, one };
    });
    await eventually('it begins', async () => (await amountsOf(id)).totalCredits === '15');
    await eventually('it is voided', async () => (await amountsOf(id)).expiredCredits === '5');
    assert.equal(await proof(id), ['EXACT', '15', '5', '0'], `it lasts ${lastsMs} ms`);
    assert.equal(await numbers(id, [one]), ['VOIDED 0 5 0']);
  }
});

test('a grant that begins before Redis hears that it was voided is voided, whatever credits follow', async () => {
  for (const [how, add] of Object.entries({ grant: plainGrant, refill })) {
    const { id, meter, one } = await inTime(700, async (beginsAt) => {
      const made = await record();
      const answer = await must(201, plainGrant(made, '5', { beginsAt }));
      // The sweeper takes it up 3 s later.
      await sleep(beginsAt - 2_000 - Date.now());
      await leaveVoid(world, made.id, answer.body.grant.id);
      return { ...made, one: answer.body.grant.id };
    });
    await eventually('it begins', async () => (await amountsOf(id)).totalCredits === '15');
    await eventually(`the ${how} is taken`, async () => (await add({ id, meter }, '3')).status < 300);
    await eventually('all is in force', async () => (await amountsOf(id)).totalCredits === '18', SOON_MS);
    assert.equal(await proof(id), ['EXACT', '18', '5', '0'], how);
    assert.equal(await numbers(id, [one]), ['VOIDED 0 5 0'], how);
  }
});

test('a record is proved soon after the end of a grant that was voided before it began', async () => {
  const { id, one, end } = await inTime(2_500, async (beginsAt) => {
    const { id } = await record();
    const end = beginsAt + 500;
    const one = await grant(id, end, 5, beginsAt);
    await must(200, world.call('post', `/api/v1/customer-billing/${id}/grant/${one}/void`));
    return { id, one, end };
  });
  // Something that makes an account of it.
  await grant(id, Date.now() + HOUR, 1);
  await eventually('its end is past', async () => Date.now() > end);
  assert.equal(await proof(id), ['EXACT', '11', '0', '0']);
  assert.equal(await numbers(id, [one]), ['VOIDED 0 0 0']);
});

test.run();

let keys = 0;

async function record() {
  const { key, meter } = await customers.meteredKey('10');
  return { key, meter, id: (await customers.billing(meter)).id };
}

async function grant(id: string, expiresAt: number, credits: number, beginsAt?: number): Promise<string> {
  const headers = { 'Idempotency-Key': `grant-${keys++}` };
  const body = { credits: String(credits), priority: 10, expiresAt, ...(beginsAt !== undefined && { beginsAt }) };
  const path = `/api/v1/customer-billing/${id}/grant`;
  return (await must(201, world.call('post', path, body, { headers }))).body.grant.id;
}

/** Credits of the class of what was bought. */
function plainGrant({ id }: { id: string }, credits: string, fields: { beginsAt?: number } = {}) {
  const headers = { 'Idempotency-Key': `grant-${keys++}` };
  return world.call('post', `/api/v1/customer-billing/${id}/grant`, { credits, ...fields }, { headers });
}

function refill({ meter }: { meter: string }, credits: string) {
  const body = { workspaceId, externalMeterId: meter, refill: credits };
  return world.call('post', '/api/v1/customer-billing/refill', body);
}

function spend(key: string, usage: string) {
  return must(200, customers.verify({ key, billing: { usage } }));
}

/** What reconciling says of all grants together, once they can be proved. */
async function proof(id: string): Promise<string[]> {
  const path = `/api/v1/customer-billing/${id}/reconciliation`;
  const { status, grants } = await eventually(
    'it can be proved',
    async () => {
      const { reconciliation } = (await must(200, world.call('get', path))).body;
      return reconciliation.status !== 'ON_ITS_WAY' && reconciliation.grants ? reconciliation : undefined;
    },
    SOON_MS,
  );
  return [status, grants.grantedCredits, grants.grantsExpiredCredits, grants.difference];
}

async function amountsOf(id: string) {
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
