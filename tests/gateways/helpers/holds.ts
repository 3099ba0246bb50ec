import * as assert from 'uvu/assert';
import { eventually, type TestKey } from '../../helpers/world.ts';
import { bearer, type Cases, type Setting } from './setting.ts';

const PATH = '/complete/1';

/** The third location of an example holds ten credits, and captures what the API says. */
export const holds: Cases = {
  async 'what the API says that a request did cost is captured, also more than was held, and else it is released; the end client sees nothing of it'(
    setting,
  ) {
    const { gateway, api } = setting;
    const customer = await newCustomer(setting);
    for (const [cost, used] of [
      ['1.25', '1.25'],
      ['12', '13.25'],
      ['0', '13.25'],
      [undefined, '13.25'],
    ] as const) {
      api.answering.cost = cost;
      const { status, text, headers } = await gateway.send(PATH, { method: 'POST', body: 'x', ...as(customer) });
      const hidden = [headers['x-keytally-cost'], headers['x-keytally-hold-id']];
      assert.equal([status, text, ...hidden], [200, 'reached', undefined, undefined]);
      const { headers: received, bytes } = api.reached.at(-1)!;
      assert.match(String(received['x-keytally-hold-id']), /^hold_/);
      assert.is(bytes, 1);
      await become(setting, customer, `${used} used 0 held`);
    }
  },

  async 'a hold of a request that the API never answered stays until it ends by itself'(setting) {
    const { gateway, api } = setting;
    const customer = await newCustomer(setting);
    api.answering.never = true;
    // A gateway may also close the connection.
    const status = await gateway.send(PATH, as(customer)).then(
      (answer) => answer.status,
      () => 502,
    );
    assert.ok(status >= 500, `${status}`);
    await become(setting, customer, '0 used 10 held');
  },

  async 'a customer who lacks what may be needed is refused before the API, and holds nothing'(setting) {
    const customer = await newCustomer(setting, '9.999999');
    assert.is((await setting.gateway.send(PATH, as(customer))).status, 402);
    assert.is(setting.api.reached.length, 0);
    await become(setting, customer, '0 used 0 held');
  },

  async 'no end client sends an id of a hold, nor does a cost count where nothing is held'(setting) {
    const { gateway, api } = setting;
    const customer = await newCustomer(setting);
    api.answering.cost = '7';
    const { headers } = as(customer);
    await gateway.send('/documents/1', { headers: { ...headers, 'X-Keytally-Hold-Id': 'hold_made' } });
    assert.is(api.reached.at(-1)!.headers['x-keytally-hold-id'] ?? '', '');
    await become(setting, customer, '1 used 0 held');
  },
};

async function newCustomer({ clients }: Setting, totalCredits = '100'): Promise<TestKey> {
  const meter = await clients.customers.newMeter({ totalCredits });
  const scopes = [{ representation: 'documents', read: true }];
  return { ...(await clients.customers.newKey({ externalMeterId: meter, scopes })), meter };
}

const as = ({ key }: TestKey) => ({ headers: bearer(key) });

function become({ clients }: Setting, { meter }: TestKey, expected: string): Promise<unknown> {
  return eventually(expected, async () => {
    const { usedCredits, heldCredits } = await clients.customers.billing(meter);
    return `${usedCredits} used ${heldCredits} held` === expected;
  });
}
