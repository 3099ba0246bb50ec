import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../tests/helpers/customers.ts';
import { eventually } from '../../../tests/helpers/eventually.ts';
import { bearer, openAsking, type Asking } from './helpers/asking.ts';

let asking: Asking;

const test = suite('holds at a gateway');
test.before(async () => {
  asking = await openAsking();
  const { customers } = asking.clients;
  const { key } = await customers.meteredKey('1');
  const hold = () => customers.verify({ key, billing: { usage: '0', hold: { expiresIn: 60 } } });
  await eventually('the keys of holds are there', async () => (await hold()).status === 200);
});
test.after(() => asking?.stop());

test('a policy that holds debits nothing, and its answer has the id with which the API captures', async () => {
  const { clients, world, ask } = asking;
  const { key, meter } = await clients.customers.meteredKey('10');
  const policy = 'usage=4,name=tokens,hold=600,onExpiry=charge';
  const { status, headers } = await ask(`plain/${policy}/complete`, { headers: bearer(key) });
  assert.equal([status, headers.get('x-keytally-remaining-credits')], [200, '6']);
  const holdId = headers.get('x-keytally-hold-id')!;
  assert.match(holdId, /^hold_/);
  const { usedCredits, heldCredits, id } = await clients.customers.billing(meter);
  assert.equal([usedCredits, heldCredits], ['0', '4']);
  const { holds } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/holds`))).body;
  assert.equal([holds[0].id, holds[0].onExpiry], [holdId, 'charge']);
  // With the gateway's own token, which may do nothing but verify.
  const options = { token: clients.token };
  const captured = await world.call(
    'post',
    `${world.verify!.url}/api/v1/usage/capture`,
    { holdId, usage: '1.5' },
    options,
  );
  assert.equal([captured.status, captured.body.billing.availableCredits], [200, '8.5']);
});

test("the header is empty without a hold, whatever the end client sent, and metadata can't make one", async () => {
  const { clients, ask } = asking;
  const metadata = { hold: { id: 'hold_made' } };
  const { key } = await clients.customers.newKey({ metadata });
  const spoofed = { ...bearer(key), 'X-Keytally-Hold-Id': 'hold_made' };
  for (const policy of ['-', 'usage=1,hold=60']) {
    const { status, headers } = await ask(`plain/${policy}/`, { headers: spoofed });
    assert.equal([status, headers.get('x-keytally-hold-id')], [200, ''], policy);
  }
});

test("a gateway's retry gets the same hold", async () => {
  const { clients, ask } = asking;
  const { key, meter } = await clients.customers.meteredKey('10');
  const headers = { ...bearer(key), 'X-Keytally-Idempotency-Key': `hold-${key}` };
  const ids = new Set<string | null>();
  for (let i = 0; i < 3; i++)
    ids.add((await ask('plain/usage=4,hold=60/', { headers })).headers.get('x-keytally-hold-id'));
  assert.is(ids.size, 1);
  assert.is((await clients.customers.billing(meter)).heldCredits, '4');
});

test.run();
