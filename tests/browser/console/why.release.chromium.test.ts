import * as assert from 'uvu/assert';
import { dayWithRoom } from '../../helpers/day-with-room.ts';
import { eventually } from '../../helpers/world.ts';
import { rowOf, stackOf } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// What a key's calls were answered, and why one was refused, as a person asks.

const { test, own } = await consoleSuite('refusals in the console');
test.before(() => dayWithRoom('Europe/Oslo'));
const daily = { name: 'daily', unit: 'requests', limit: 2, per: 'day', timezone: 'Europe/Oslo' };

test("a key's page counts what its calls were answered, and lists the last ones with reason, limit and route", async () => {
  const planned = { name: 'planned', unit: 'requests', limit: 1, per: 'day', shadow: true };
  const key = await own.customers.newKey({ name: 'Counted', limits: [daily, planned] });
  for (const path of ['/a', '/a', '/b']) await own.customers.verify({ key: key.key, route: `GET ${path}` });
  await refusalKnown(key.id);
  const { page, close } = await own.open(`keys/${key.id}`);
  for (const span of ['Last hour', 'Last 30 days']) {
    await page.getByLabel('Time', { exact: true }).selectOption(span);
    await rowOf(page, 'Calls by answer', 'RATE_LIMITED').getByText('key/daily').waitFor();
    assert.match(await rowOf(page, 'Calls by answer', 'RATE_LIMITED').innerText(), /RATE_LIMIT\s+key\/daily\s+1$/);
    assert.match(await rowOf(page, 'Calls by answer', 'VALID').first().innerText(), /2$/);
    assert.match(await rowOf(page, 'Calls by answer', 'would be refused').first().innerText(), /key\/planned/);
  }
  assert.equal(await stackOf(page, 'RATE_LIMITED'), ['VALID', 'RATE_LIMITED']);
  const decision = await rowOf(page, 'Recent decisions', 'RATE_LIMITED').innerText();
  assert.match(decision, /RATE_LIMITED\s+RATE_LIMIT\s+key\/daily\s+GET \/b$/);
  await close();
});

// Calls that passed may be in the books before.
async function refusalKnown(apiKeyId: string): Promise<void> {
  await eventually('a refusal is in the books', async () => {
    const recent = await own.world.call('get', `/api/v1/verifications/recent?apiKeyId=${apiKeyId}`);
    const isKnown = recent.body.data.some(({ status }: { status: string }) => status !== 'VALID');
    const query = `workspaceId=${own.workspaceId}&apiKeyId=${apiKeyId}&groupBy=`;
    const counts = (await own.world.call('get', `/api/v1/verifications?${query}`)).body.data as unknown[];
    return isKnown && counts.length > 0;
  });
}
