import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf } from '../../../shared/events/event.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { makeCustomers, must, type Customers } from '../../helpers/customers.ts';
import { dayWithRoom } from '../../helpers/day-with-room.ts';
import { inTime } from '../../helpers/in-time.ts';
import { eventually, makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, signedIn, stackOf } from './helpers/browser.ts';

// What a key's calls were answered, and why one was refused, as a person asks.

let world: World;
let browser: Browser;
let workspaceId: string;
let customers: Customers;
const test = suite('outcomes in the console');
test.before(async () => {
  await dayWithRoom('Europe/Oslo');
  [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Weather' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await browser?.close();
  await world?.stop();
});

test("a key's page counts what its calls were answered, and lists the last ones with reason, limit and route", async () => {
  const key = await limitedKey('Counted', { shadow: true });
  for (const path of ['/a', '/a', '/b']) await customers.verify({ key: key.key, route: `GET ${path}` });
  await known(key.id, 3);
  const { page, close } = await open(`keys/${key.id}`);
  for (const span of ['Last 24 hours', 'Last hour', 'Last 30 days']) {
    await page.getByLabel('Time', { exact: true }).selectOption(span);
    await rowOf(page, 'Calls by answer', 'RATE_LIMITED').getByText('key/daily').waitFor();
    assert.match(await rowOf(page, 'Calls by answer', 'RATE_LIMITED').innerText(), /RATE_LIMIT\s+key\/daily\s+1$/);
    assert.match(await rowOf(page, 'Calls by answer', 'VALID').first().innerText(), /2$/);
    assert.match(await rowOf(page, 'Calls by answer', 'would be refused').first().innerText(), /key\/planned/);
  }
  assert.equal(await stackOf(page, 'RATE_LIMITED'), ['VALID', 'RATE_LIMITED']);
  assert.match(
    await rowOf(page, 'Recent decisions', 'RATE_LIMITED').innerText(),
    /RATE_LIMITED\s+RATE_LIMIT\s+key\/daily\s+GET \/b$/,
  );
  const lastUsedAt = await eventually('its last use is known', async () => {
    const path = `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
    return (await world.call('get', path)).body.apiKey.lastUsedAt as number | undefined;
  });
  await page.reload();
  const utc = new Date(lastUsedAt).toISOString().replace('T', ' ').replace('Z', ' UTC');
  await page.getByRole('definition').getByTitle(utc).waitFor();
  await close();
});

test('a refused key is found by its name, with the limit that refused it and the way to raise that', async () => {
  const [key] = [await limitedKey('Harbour one'), await limitedKey('Harbour two')];
  for (let i = 0; i < 3; i++) await customers.verify({ key: key.key });
  await known(key.id, 3);
  const { page, close } = await open('why');
  await find(page, 'nobody of this name');
  await page.getByText('No key and no record fits.').waitFor();
  for (const text of ['cus_harbour', 'harbour']) {
    await find(page, text);
    await page.getByRole('link', { name: 'Harbour two' }).waitFor();
  }
  await page.getByRole('link', { name: 'Harbour one' }).click();
  const verdict = page.getByRole('region', { name: 'The last refusal' });
  await verdict.getByText('The limit daily of the key was reached: at most 2 requests per day.').waitFor();
  await verdict.getByText('It is whole again with the next day in Europe/Oslo.').waitFor();
  await inTable(page, 'Recent decisions', 'RATE_LIMITED');
  await verdict.getByRole('link', { name: 'raise it on the key' }).click();
  await page.getByRole('heading', { level: 1, name: 'Harbour one' }).waitFor();
  await page.getByRole('button', { name: 'Change limits' }).click();
  await page.getByRole('dialog').getByLabel('At most').fill('100');
  await page.getByRole('dialog').getByRole('button', { name: 'Save limits' }).click();
  await inTable(page, 'Limits', '100');
  assert.is((await customers.verify({ key: key.key })).body.status, 'VALID');
  await page.getByRole('link', { name: 'Why was it refused?' }).click();
  await page.getByRole('region', { name: 'The last refusal' }).getByText('it is at most 100').waitFor();
  await close();
});

test('who goes on while a search is under way is not taken back', async () => {
  const key = await customers.newKey({ name: 'Lighthouse' });
  const { page, close } = await open('why');
  const answer = Promise.withResolvers<void>();
  await page.route(/[?&]search=Lighthouse/, async (request) => {
    await answer.promise;
    await request.continue();
  });
  await find(page, 'Lighthouse');
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
  const answered = page.waitForResponse(/[?&]search=Lighthouse/);
  answer.resolve();
  await (await answered).finished();
  // What the answer leads to is drawn by the second frame.
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  assert.not.match(page.url(), key.id);
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
  await close();
});

test('a customer without credits is found by its meter, and says what is available now', async () => {
  const externalMeterId = await customers.newMeter({ externalMeterId: 'fjord-ferries', totalCredits: '5' });
  const key = await customers.newKey({ name: 'Timetable', externalMeterId });
  await customers.verify({ key: key.key, billing: { usage: '5' } });
  await customers.verify({ key: key.key, billing: { usage: '1' } });
  await known(key.id, 2);
  const { page, close } = await open('why');
  await find(page, 'fjord-ferries');
  await page.getByRole('heading', { name: 'Keys of the meter fjord-ferries' }).waitFor();
  const verdict = page.getByRole('region', { name: 'The last refusal' });
  await verdict.getByText('The call cost more than its record has left.').waitFor();
  await verdict.getByText('0 credits are available').waitFor();
  await verdict.getByRole('link', { name: 'Add credits to the record' }).click();
  await page.getByRole('button', { name: 'Refill' }).click();
  await page.getByRole('dialog').getByLabel('Credits').fill('20');
  await page.getByRole('dialog').getByRole('button', { name: 'Add credits' }).click();
  await page.getByText('20 credits available').waitFor();
  await page.goBack();
  await verdict.getByText('20 credits are available').waitFor();
  await close();
});

test('a limit per second is told with its unit', async () => {
  const key = await customers.newKey({ name: 'Per second', rateLimitPerSecond: 1 });
  await eventually('it is refused', async () => (await customers.verify({ key: key.key })).body.status !== 'VALID');
  await refusalKnown(key.id);
  const { page, close } = await open(`why?key=${key.id}`);
  const verdict = page.getByRole('region', { name: 'The last refusal' });
  const text = 'The limit rateLimitPerSecond of the key was reached: at most 1 requests per second.';
  await verdict.getByText(text).waitFor();
  await verdict.getByText('calls pass again within the second').waitFor();
  await close();
});

test('each other reason is told with what changes it', async () => {
  const disabled = await customers.newKey({ name: 'Disabled one', enabled: false });
  const elsewhere = await customers.newKey({ name: 'From elsewhere', allowedIPs: ['192.0.2.1'] });
  const unpaid = await customers.newKey({ name: 'Unpaid', externalMeterId: 'no-record' });
  const ended = await inTime(1_500, (expiresAt) => customers.newKey({ name: 'Ended', expiresAt }));
  const unscoped = await customers.newKey({ name: 'Unscoped' });
  const capped = await metered('capped', { allowOverages: true, spendCap: '2' });
  const limit = { name: 'monthly', unit: 'credits', limit: '1', per: 'month' };
  const slowed = await metered('slowed', { totalCredits: '9', limits: [limit] });
  const deleted = await customers.newKey({ name: 'Deleted one' });
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${deleted.id}`));
  await customers.verify({ key: deleted.key });
  for (const { key } of [capped, slowed])
    for (const usage of ['1', '1.5']) await customers.verify({ key, billing: { usage } });
  await customers.verify({ key: disabled.key });
  await customers.verify({ key: elsewhere.key, ip: '198.51.100.7' });
  await customers.verify({ key: unpaid.key, billing: { usage: '1' } });
  await customers.verify({ key: unscoped.key, requestedScopes: [{ representation: 'forecasts', read: true }] });
  await eventually('it is over', async () => (await customers.verify({ key: ended.key })).body.status === 'EXPIRED');
  const told = [
    [disabled, 'The key was disabled.', 'the key is disabled'],
    [elsewhere, 'an address that the key may not be used from', 'it may come from 192.0.2.1'],
    [unpaid, "no record has the key's meter, no-record", 'the meter has none'],
    [ended, 'The key had reached its end.', 'its end is'],
    [unscoped, 'a scope that the key was not granted', 'Grant the scope to the key.'],
    [capped, 'beyond its spend cap', '1 of 2 are used'],
    [slowed, 'The limit monthly of the record was reached: at most 1 credits per month.', 'raise it on the record'],
    [deleted, 'The key was deleted.', 'give the customer a new key'],
  ] as const;
  for (const [key] of told) await refusalKnown(key.id);
  const { page, close } = await open('why');
  for (const [{ id }, why, now] of told) {
    await find(page, id);
    const verdict = page.getByRole('region', { name: 'The last refusal' });
    await verdict.getByText(why).waitFor();
    await verdict.getByText(now).waitFor();
  }
  await close();
});

test('a limit of the workspace is told with the way to raise it for all keys', async () => {
  const defaultLimits = [{ name: 'shared', unit: 'requests', limit: 1, per: 'day' }];
  const made = await must(201, world.call('post', '/api/v1/workspace', { name: 'Limited', defaultLimits }));
  const { id } = made.body.workspace;
  const { newKey, verify } = makeCustomers(world, id);
  const key = await newKey({ name: 'As all' });
  for (let i = 0; i < 2; i++) await verify({ key: key.key });
  await refusalKnown(key.id);
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${id}/why?key=${key.id}`);
  const verdict = page.getByRole('region', { name: 'The last refusal' });
  await verdict
    .getByText("The limit shared of the workspace's keys was reached: at most 1 requests per day.")
    .waitFor();
  await verdict.getByRole('link', { name: 'raise it for all keys of the workspace' }).click();
  await inTable(page, 'Limits', 'shared');
  await close();
});

test.run();

async function metered(
  externalMeterId: string,
  { limits, ...fields }: { limits?: object[]; [field: string]: unknown },
) {
  await customers.newMeter({ externalMeterId, ...fields });
  const { id } = await customers.billing(externalMeterId);
  if (limits) await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, { limits }));
  return customers.newKey({ name: externalMeterId, externalMeterId });
}

async function limitedKey(name: string, more?: { shadow: true }) {
  const daily = { name: 'daily', unit: 'requests', limit: 2, per: 'day', timezone: 'Europe/Oslo' };
  const planned = { name: 'planned', unit: 'requests', limit: 1, per: 'day', ...more };
  return customers.newKey({ name, customerId: 'cus_harbour', limits: more ? [daily, planned] : [daily] });
}

// Until the books have so many decisions of a key.
async function known(apiKeyId: string, count: number): Promise<void> {
  await eventually(`${count} decisions are in the books`, async () => {
    const { data } = (await world.call('get', `/api/v1/verifications/recent?apiKeyId=${apiKeyId}`)).body;
    const query = new URLSearchParams({
      workspaceId,
      apiKeyId,
      from: dayOf(Date.now() - DAY_MS),
      groupBy: '',
    }).toString();
    const counts = (await world.call('get', `/api/v1/verifications?${query}`)).body.data as { count: number }[];
    return data.length >= count && counts.reduce((sum, one) => sum + one.count, 0) >= count;
  });
}

// Calls that passed may be in the books before: of a key that ended meanwhile, for one.
async function refusalKnown(apiKeyId: string): Promise<void> {
  await eventually('a refusal is in the books', async () => {
    const { data } = (await world.call('get', `/api/v1/verifications/recent?apiKeyId=${apiKeyId}`)).body;
    return data.some(({ status }: { status: string }) => status !== 'VALID');
  });
}

async function find(page: Page, text: string): Promise<void> {
  await page.getByLabel('Key or customer').fill(text);
  await page.getByRole('button', { name: 'Find' }).click();
}

async function open(path: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  return { page, close };
}
