import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../../tests/helpers/customers.ts';
import { makeWorld, request } from '../../../tests/helpers/world.ts';

// In a world without a consumer nobody takes events out, so what fills the outbox stays.
const world = await makeWorld(['verify']);
const { body } = await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }));
const customers = makeCustomers(world, body.workspace.id);

test('while the outbox is full, metered calls, holds and captures are 503 and take nothing, and a hold stays', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const { key: plain } = await customers.newKey();
  const hold = { usage: '30', hold: { expiresIn: 600 } };
  const { body } = await must(200, customers.verify({ key, billing: hold }));
  await must(200, customers.verify({ key }));
  const before = await customers.billing(meter);
  // It is not ready before it has looked.
  const { url } = await world.start('verify', { OUTBOX_MAX_ENTRIES: '1' });
  const capture = (at: string) =>
    request(`${at}/api/v1/usage/capture`, 'post', {
      token: world.team.token,
      body: { holdId: body.hold.id, usage: '1' },
    });
  for (const refused of [
    customers.verify({ key }, { url }),
    customers.verify({ key, billing: hold }, { url }),
    capture(url),
  ])
    assert.is((await refused).body.error?.code, 50306);
  const after = await customers.billing(meter);
  assert.equal([after.usedCredits, after.heldCredits], [before.usedCredits, before.heldCredits]);
  assert.is((await must(200, customers.verify({ key: plain }, { url }))).body.status, 'VALID');
  await must(200, capture(world.verify!.url));
});
