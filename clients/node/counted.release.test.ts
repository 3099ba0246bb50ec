// Guarded requests are counted exactly, from the guard to the books.
import { Agent, request } from 'node:http';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, type Customers } from '../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { frameworks } from './helpers/frameworks.ts';
import { keytally, type ClientOptions, type Identity } from './index.ts';

const REQUESTS = 10_000;
const AT_ONCE = 64;

let world: World;
let customers: Customers;

const test = suite('guarded requests');
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(() => world?.stop());

const transports: Record<string, Pick<ClientOptions, 'fetch'>> = {
  'node:http': {},
  fetch: { fetch: (...args) => fetch(...args) },
};

for (const [name, transport] of Object.entries(transports)) {
  test(`10,000 guarded requests, 64 at once, pass, and each is debited and booked once, by ${name}`, async () => {
    const { key, meter } = await customers.meteredKey('2500');
    const client = keytally({ url: world.verify!.url, token: world.team.token, verifyTimeoutMs: 60_000, ...transport });
    const balances = new Set<string | undefined>();
    const app = await frameworks.Koa!(client, { costOf: () => '0.25' }, (identity) => {
      balances.add((identity as Identity).billing?.usedCredits);
      return {};
    });
    const statuses = await askOften(app.url, key);
    await app.stop();

    assert.equal([...statuses], [[200, REQUESTS]]);
    // Each had an answer of its own.
    assert.is(balances.size, REQUESTS);
    const { id, usedCredits } = await customers.billing(meter);
    assert.is(usedCredits, '2500');
    await eventually('all are in the books', async () => (await booked(id)).events >= REQUESTS);
    assert.equal(await booked(id), { events: REQUESTS, credits: 2500 });
  });
}

test.run();

/** Asks as often as there are requests, always with so many under way; gives how often each status was answered. */
async function askOften(url: string, key: string): Promise<Map<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  const statuses = new Map<number, number>();
  let left = REQUESTS;
  const ask = () =>
    new Promise<number>((resolve, reject) => {
      const asked = request(url, { agent, headers: { 'X-API-Key': key } }, (answer) => {
        answer.resume().on('end', () => resolve(answer.statusCode!));
      });
      asked.on('error', reject).end();
    });
  const askUntilDone = async () => {
    while (left-- > 0) {
      const status = await ask();
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, askUntilDone));
  agent.destroy();
  return statuses;
}

/** What the books have of a billing record, over all its days. */
async function booked(billingId: string): Promise<{ events: number; credits: number }> {
  const { data } = (await world.call('get', `/api/v1/usage/${billingId}`)).body as {
    data: { events: number; totalBillingUsage: string }[];
  };
  const sum = { events: 0, credits: 0 };
  for (const { events, totalBillingUsage } of data) {
    sum.events += events;
    sum.credits += Number(totalBillingUsage);
  }
  return sum;
}
