import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../helpers/customers.ts';
import { inTime } from '../helpers/in-time.ts';
import { eventually } from '../helpers/world.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';

// What becomes of grants when their Redis is emptied or comes back older. This file has a Redis of its own for that.

const test = suite('grants of a Redis that was lost');
let own: RebuildWorld;

test.before(async () => {
  own = await makeRebuildWorld('grants', { BUS: 'redis' });
  await own.world.start('consumer');
});
test.after(() => own?.stop());

const HOUR = 3_600_000;

test('an account that Redis lost comes back with all five amounts and what remains of each grant', async () => {
  const { key, id, grants } = await usedAccount();
  const [amounts, each] = [await amountsOf(id), await numbersOf(id)];
  assert.equal(amounts, ['182', '58', '104', '0', '20']);
  await own.booked(key, 58);
  await own.redis.admin.flushall();
  await own.untilValid(key);
  assert.equal(await amountsOf(id), amounts);
  assert.equal(await numbersOf(id), each);
  await own.isExact(key);
  await own.spend(key, '104');
  assert.equal(await amountsOf(id), ['182', '162', '0', '0', '20']);
  assert.is((await grantOf(id, grants.pending)).state, 'PENDING');
  await own.booked(key, 162);
  await own.isExact(key);
});

test('an account that comes back older does its turns and voids again, and agrees with the books', async () => {
  const { key, id, grants } = await usedAccount();
  await own.booked(key, 58);
  await own.redis.keep('before');
  await own.untilValid(key);
  await own.spend(key, '2');
  await voidGrant(id, grants.first);
  await own.adjust(key, '-3');
  const [amounts, each] = [await amountsOf(id), await numbersOf(id)];
  await own.booked(key, 57);
  await own.redis.comeBackAs('before');
  await own.untilValid(key);
  // While Redis is unavailable, a record answers a copy.
  const isDone = async () => {
    const { status, body } = await own.world.call('get', `/api/v1/customer-billing/${id}/reconciliation`);
    return (
      status === 200 && body.reconciliation.usedCredits === '57' && String(await amountsOf(id)) === String(amounts)
    );
  };
  await eventually('the void is done again, and the adjustment after it', isDone);
  assert.equal(await numbersOf(id), each);
  await own.isExact(key);
});

test.run();

/** A record with grants that are used up, active, ended, voided and pending, and 58 used. */
async function usedAccount() {
  const { key, id, first, voided, ending, pending } = await inTime(2_000, async (expiresAt) => {
    const key = await own.customers.meteredKey('100');
    const { id } = await own.customers.billing(key.meter);
    const later = Date.now() + HOUR;
    const first = await grant(id, { credits: '50', priority: 10, expiresAt: later });
    const voided = await grant(id, { credits: '17', priority: 20 });
    const ending = await grant(id, { credits: '15', priority: 5, expiresAt });
    const pending = await grant(id, { credits: '5', beginsAt: later });
    await own.spend(key, '12');
    return { key, id, first, voided, ending, pending };
  });
  await voidGrant(id, voided);
  await eventually('it has ended', async () => (await grantOf(id, ending)).state === 'EXPIRED');
  await own.spend(key, '46');
  return { key, id, grants: { first, voided, ending, pending } };
}

let keys = 0;

async function grant(id: string, body: object): Promise<string> {
  const headers = { 'Idempotency-Key': `grant-${keys++}` };
  return (await must(201, own.world.call('post', `/api/v1/customer-billing/${id}/grant`, body, { headers }))).body.grant
    .id;
}

function voidGrant(id: string, grantId: string) {
  return must(200, own.world.call('post', `/api/v1/customer-billing/${id}/grant/${grantId}/void`));
}

async function grantOf(id: string, grantId: string) {
  return (await must(200, own.world.call('get', `/api/v1/customer-billing/${id}/grant/${grantId}`))).body.grant;
}

async function amountsOf(id: string): Promise<string[]> {
  const { billing } = (await must(200, own.world.call('get', `/api/v1/customer-billing/${id}`))).body;
  const { totalCredits, usedCredits, availableCredits, heldCredits, expiredCredits } = billing;
  return [totalCredits, usedCredits, availableCredits, heldCredits, expiredCredits];
}

async function numbersOf(id: string): Promise<string[]> {
  const { grants } = (await must(200, own.world.call('get', `/api/v1/customer-billing/${id}/grants`))).body;
  return grants.map((one: Record<string, string>) =>
    [one.credits, one.state, one.usedCredits, one.expiredCredits, one.remainingCredits].join(' '),
  );
}
