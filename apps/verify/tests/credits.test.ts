import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeCustomers, must } from '../../../tests/helpers/customers.ts';
import { joinWorld, request } from '../../../tests/helpers/world.ts';

const world = await joinWorld();
const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
const customers = makeCustomers(world, workspace.id);
const { verify } = customers;
const scope = { name: 'Users', representation: 'users' };
await must(201, world.call('post', `/api/v1/workspace/${workspace.id}/scope`, scope));

test('400 calls at once on 200 credits, of three keys on two servers, give exactly 200 VALID', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '200' });
  const keys = await Promise.all([1, 2, 3].map(() => customers.newKey({ externalMeterId })));
  const decide = async (i: number): Promise<string> => {
    const options = { url: i % 2 ? world.api.url : world.verify.url, headers: { 'Idempotency-Key': `spend-${i}` } };
    const body = { key: keys[i % 3]!.key, billing: { usage: '1' } };
    return (await must(200, customers.verify(body, options))).body.status;
  };
  const statuses = await Promise.all(Array.from({ length: 400 }, (_, i) => decide(i)));
  assert.is(statuses.filter((status) => status === 'VALID').length, 200);
  assert.is(statuses.filter((status) => status === 'USAGE_LIMITED').length, 200);
  assert.is((await customers.billing(externalMeterId)).usedCredits, '200');
});

test('credits are exact to the sixth place, up to the largest amount', async () => {
  for (const [totalCredits, ...calls] of [
    ['1', ...Array(10).fill('0.1 VALID'), '0.000001 USAGE_LIMITED'],
    ['9000000000', '8999999999.999998 VALID', '0.000003 USAGE_LIMITED', '0.000002 VALID'],
  ]) {
    const externalMeterId = await customers.newMeter({ totalCredits });
    const { key } = await customers.newKey({ externalMeterId });
    for (const call of calls) {
      const [usage, status] = call.split(' ');
      assert.is((await verify({ key, billing: { usage } })).body.status, status, call);
    }
    assert.is((await customers.billing(externalMeterId)).usedCredits, totalCredits);
  }
});

test('credits, overage and spend cap limit what a record may use', async () => {
  const spend = async (fields: object, ...usages: string[]) => {
    const { key } = await customers.newKey({ externalMeterId: await customers.newMeter(fields) });
    const outcomes = [];
    for (const usage of usages) {
      const { status, reason } = (await verify({ key, billing: { usage } })).body;
      outcomes.push(reason ?? status);
    }
    return outcomes;
  };
  const used = ['VALID', 'CREDITS_USED_UP'];
  const capped = ['VALID', 'SPEND_CAP_REACHED'];
  assert.equal(await spend({ totalCredits: '2' }, '2', '0.000001', '0'), [...used, 'VALID']);
  assert.equal(await spend({ totalCredits: '2', spendCap: '1' }, '1', '0.5'), capped);
  assert.equal(await spend({ totalCredits: '2', spendCap: '3' }, '2', '0.5'), used);
  assert.equal(await spend({ totalCredits: '0', allowOverages: true }, '9000000000', '0.000001'), used);
  assert.equal(await spend({ totalCredits: '0', allowOverages: true, spendCap: '5' }, '5', '0.5'), capped);
  assert.is((await spend({ totalCredits: '2', spendCap: '1' }, '1.5'))[0], 'SPEND_CAP_REACHED');
});

test('the five amounts of a record add up in every answer, refused or beyond what was bought', async () => {
  const amounts = (billing: Record<string, unknown>) =>
    ['total', 'used', 'available', 'held', 'expired'].map((name) => billing[`${name}Credits`]);
  const externalMeterId = await customers.newMeter({ totalCredits: '2.5', allowOverages: true, spendCap: '4' });
  const { key } = await customers.newKey({ externalMeterId });
  const spend = async (usage: string) => amounts((await verify({ key, billing: { usage } })).body.billing);
  assert.equal(await spend('0'), ['2.5', '0', '2.5', '0', '0']);
  assert.equal(await spend('2.000001'), ['2.5', '2.000001', '0.499999', '0', '0']);
  assert.equal(await spend('1.5'), ['2.5', '3.500001', '-1.000001', '0', '0']);
  assert.equal(await spend('1'), ['2.5', '3.500001', '-1.000001', '0', '0'], 'refused');
  assert.equal(amounts(await customers.billing(externalMeterId)), ['2.5', '3.500001', '-1.000001', '0', '0']);
});

test('a metered key without its record passes at no cost, and the record may come later', async () => {
  const externalMeterId = `later-${Math.random()}`;
  const { key } = await customers.newKey({ externalMeterId });
  assert.is((await verify({ key })).body.status, 'VALID');
  const refused = await verify({ key, billing: { usage: '1' } });
  assert.equal([refused.body.status, refused.body.reason], ['USAGE_LIMITED', 'NO_BILLING_RECORD']);
  await customers.newMeter({ externalMeterId, totalCredits: '1' });
  assert.is((await verify({ key, billing: { usage: '1' } })).body.status, 'VALID');
});

test('a meter may have any name', async () => {
  for (const externalMeterId of ['-', '0', ' ', 'ü']) {
    await customers.newMeter({ externalMeterId, totalCredits: '2' });
    const { key } = await customers.newKey({ externalMeterId });
    assert.is((await verify({ key, billing: { usage: '1' } })).body.billing.usedCredits, '1');
  }
});

test('an Idempotency-Key debits once, and another cost under it is refused', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '10' });
  const { key } = await customers.newKey({ externalMeterId, rateLimitPerSecond: 5 });
  const once = (body: object, base = world.verify.url) =>
    request(base + VERIFY_PATH, 'post', {
      token: world.team.token,
      body: { key, ...body },
      headers: { 'Idempotency-Key': 'once' },
    });
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => once({ billing: { usage: '2' } }, i % 2 ? world.api.url : undefined)),
  );
  for (const answer of answers) {
    assert.is(answer.body.status, 'VALID');
    assert.equal(answer.body.rateLimit, answers[0]!.body.rateLimit);
  }
  assert.is((await customers.billing(externalMeterId)).usedCredits, '2');
  const otherCost = await once({ billing: { usage: '3' } });
  assert.equal([otherCost.status, otherCost.body.error.code], [409, 40904]);
  const otherName = await once({ billing: { usage: '2', usageName: 'other' } });
  assert.is(otherName.status, 409);
  assert.is((await verify({ key, billing: { usage: '2' } })).body.billing.usedCredits, '4');
  const scoped = await once({ billing: { usage: '2' }, requestedScopes: [{ representation: 'users', read: true }] });
  assert.is(scoped.body.status, 'INVALID_SCOPES');
});
