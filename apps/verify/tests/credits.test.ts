import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../tests/helpers/world.ts';

const world = await joinWorld();
const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
const customers = makeCustomers(world, workspace.id);
const { verify } = customers;

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
