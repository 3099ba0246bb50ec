import { readFileSync } from 'node:fs';
import type { Browser, Locator, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf } from '../../../shared/events/event.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { makeCustomers, must, type Customers } from '../../helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../helpers/world.ts';
import { inTable, launch, rowOf, settled, signedIn, stackOf } from './helpers/browser.ts';

// Whether all is well, and what was used, as a person looks at it.

const ROUNDS = 2_000;
const MOST_GROWTH_BYTES = 1_000_000;
let world: World;
let browser: Browser;
let workspaceId: string;
let customers: Customers;
let holding: Awaited<ReturnType<World['sql']['reserve']>>;
const test = suite('overview and usage in the console');
test.before(async () => {
  [world, browser] = await Promise.all([makeWorld(['verify']), launch()]);
  // The hourly comparison would find what a test says of the books to be otherwise.
  holding = await world.sql.reserve();
  await holding`select pg_advisory_lock(hashtext('keytally jobs'), hashtext('reconcile'))`;
  await world.start('consumer');
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'Weather' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  holding?.release();
  await browser?.close();
  await world?.stop();
});

test('an empty workspace says what to do, and that nothing was proved yet', async () => {
  const { page, close } = await open('overview');
  for (const text of [
    'No call in this time.',
    'There is no billing record.',
    'no limit refused a call.',
    'There is no webhook.',
    'Not proved yet',
    'Nothing was used.',
  ])
    await page.getByText(text).waitFor();
  await close();
});

test('verifications show while one looks, and not while the tab is hidden', async () => {
  const { key } = await customers.newKey({ name: 'Live' });
  const { page, close } = await open('overview');
  await page.getByText('No call in this time.').waitFor();
  await customers.verify({ key });
  await inTable(page, 'Calls by answer', 'VALID');
  assert.equal(await stackOf(page, 'VALID'), ['VALID']);
  await page.emulateMedia({ colorScheme: 'dark' });
  await eventually('the chart is drawn in the colours of the dark', async () => {
    return (await stackOf(page, 'VALID'))[0] === 'VALID';
  });
  let asked = 0;
  page.on('request', (request) => void (request.url().includes('/verifications?') && asked++));
  await setHidden(page, true);
  await settled(page);
  asked = 0;
  await customers.verify({ key });
  // Longer than a round.
  await page.waitForTimeout(12_000);
  assert.is(asked, 0);
  assert.match(await rowOf(page, 'Calls by answer', 'VALID').innerText(), /1$/);
  await setHidden(page, false);
  await rowOf(page, 'Calls by answer', 'VALID').getByText('2', { exact: true }).waitFor();
  await close();
});

test('customers with the least left, limits that were hit, webhooks that fail and books that differ lead to their pages', async () => {
  const meter = await customers.newMeter({ externalMeterId: 'alpine-club', totalCredits: '0' });
  await customers.newMeter({ externalMeterId: 'fjord-ferries', totalCredits: '1000' });
  const { id: billingId } = await customers.billing(meter);
  const limits = [{ name: 'hourly', unit: 'requests', limit: 1, per: 'hour' }];
  const { id, key } = await customers.newKey({ name: 'Busy', limits });
  for (let i = 0; i < 4; i++) await customers.verify({ key });
  // The same limit by its name: the key tells them apart.
  const other = await customers.newKey({ name: 'Idle', limits });
  for (let i = 0; i < 2; i++) await customers.verify({ key: other.key });
  const body = { url: 'https://hooks.example.com/in', events: ['key.created'], workspaceId };
  const { webhook } = (await must(201, world.call('post', '/api/v1/webhook', body))).body;
  await world.sql`update webhooks set failing_since = now() - interval '1 hour' where id = ${webhook.id}`;
  const provedAt = Date.now() - 60_000;
  await world.sql`insert into job_watermarks (job, at) values ('reconciled', ${provedAt})`;
  await world.sql`
    insert into unproved_records (billing_id, team_id, workspace_id, status, difference_micros, held_difference_micros)
    values (${billingId}, ${world.team.id}, ${workspaceId}, 'MISSING', 2500000, 0)`;
  await eventually('the refusals are counted', async () => {
    const query = `workspaceId=${workspaceId}&from=${dayOf(Date.now() - DAY_MS)}&groupBy=limit&reason=RATE_LIMIT`;
    const [row] = (await world.call('get', `/api/v1/verifications?${query}`)).body.data;
    return row?.count === 4;
  });
  const { page, close } = await open('overview');
  const low = panel(page, 'Customers with the least left');
  assert.match(await low.getByRole('listitem').first().innerText(), /alpine-club\s+0\s+Exhausted/);
  const hit = panel(page, 'Limits hit, last 24 hours');
  const items = hit.getByRole('listitem');
  await items.nth(1).waitFor();
  assert.equal(
    (await items.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' ')),
    ['Busy key/hourly 3 refused', 'Idle key/hourly 1 refused'],
  );
  const books = panel(page, 'Books');
  await books.getByText('1 record differs').waitFor();
  await books.getByText('alpine-club by 2.5, since').waitFor();
  await books.getByTitle(new Date(provedAt).toISOString().replace('T', ' ').replace('Z', ' UTC')).waitFor();
  await panel(page, 'Webhooks that fail').getByText('every try fails since').waitFor();
  for (const [link, heading] of [
    [hit.getByRole('link', { name: 'Busy' }), 'Why was this refused?'],
    [low.getByRole('link', { name: 'alpine-club' }), 'alpine-club'],
    [panel(page, 'Webhooks that fail').getByRole('link'), 'hooks.example.com'],
  ] as const) {
    await link.click();
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    await page.goBack();
  }
  assert.match((await hit.getByRole('link', { name: 'Busy' }).getAttribute('href'))!, new RegExp(`why\\?key=${id}$`));
  await close();
});

test('usage is summed as one asks, shown as a table, and downloaded as CSV and Parquet', async () => {
  const keyIds: string[] = [];
  for (const [meter, customerId] of [
    ['northwind', 'north'],
    ['harbour', 'south'],
  ] as const) {
    await customers.newMeter({ externalMeterId: meter, totalCredits: '1000' });
    const { id, key } = await customers.newKey({ name: meter, externalMeterId: meter, customerId });
    keyIds.push(id);
    for (const route of ['GET /a', 'GET /b'])
      await customers.verify({ key, route, billing: { usage: '2.000001', usageName: 'forecast' } });
  }
  await eventually('it is booked', async () => {
    const { data } = (await world.call('get', `/api/v1/usage?workspaceId=${workspaceId}&groupBy=route`)).body;
    const ofRoutes = data.filter(({ route }: { route?: string }) => route);
    return ofRoutes.map(({ events }: { events: number }) => events).join() === '2,2';
  });
  const { page, close } = await open('overview');
  await rowOf(page, 'Credits used by usage', 'forecast').getByText('8.000004').waitFor();
  assert.equal(await stackOf(page, 'forecast'), ['forecast']);
  await page.getByRole('link', { name: 'All usage' }).click();
  await rowOf(page, 'Usage', 'northwind').getByText('4.000002').waitFor();
  assert.equal(await stackOf(page, 'northwind, forecast'), ['harbour, forecast', 'northwind, forecast']);
  const day = new Date().toISOString().slice(0, 10);
  const monday = new Date(Date.parse(day) - ((new Date(day).getUTCDay() + 6) % 7) * DAY_MS);
  for (const [interval, start] of [
    ['week', monday.toISOString().slice(0, 10)],
    ['month', new RegExp(`^${day.slice(0, 7)}-\\d\\d$`)],
    ['day', day],
  ] as const) {
    await page.getByLabel('By', { exact: true }).selectOption(interval);
    await page.getByRole('button', { name: 'Show' }).click();
    await rowOf(page, 'Usage', 'northwind').getByText(start).waitFor();
  }
  await page.getByRole('checkbox', { name: 'Key' }).check();
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByRole('columnheader', { name: 'Key' }).waitFor();
  await rowOf(page, 'Usage', 'northwind').getByRole('link', { name: keyIds[0]! }).waitFor();
  await page.getByRole('checkbox', { name: 'Key' }).uncheck();
  await page.getByLabel('By', { exact: true }).selectOption('hour');
  await page.getByLabel('Time zone').fill('Europe/Oslo');
  // There the next day begins an hour or two before that of UTC.
  await page.getByLabel('To the day').fill(dayOf(Date.parse(day) + DAY_MS));
  for (const group of ['Meter', 'Usage']) await page.getByRole('checkbox', { name: group }).uncheck();
  for (const group of ['Customer', 'Route']) await page.getByRole('checkbox', { name: group }).check();
  await page.getByText('Only some of it').click();
  await page.getByLabel('Only the customer').fill('south');
  await page.getByRole('button', { name: 'Show' }).click();
  await rowOf(page, 'Usage', 'GET /b').getByText('2.000001').waitFor();
  const headers = await page.getByRole('region', { name: 'Usage' }).getByRole('columnheader').allInnerTexts();
  assert.equal(headers, ['From (Europe/Oslo)', 'Route', 'Customer', 'Credits', 'Events']);
  assert.is(await page.getByRole('region', { name: 'Usage' }).getByRole('row').count(), 3);
  assert.match(
    await rowOf(page, 'Usage', 'GET /b').innerText(),
    /^\d{4}-\d\d-\d\d \d\d:00\s+GET \/b\s+south\s+2\.000001\s+1$/,
  );
  const csv = (await saved(page, 'Download CSV')).toString();
  assert.match(csv, /^"start","route","customerId","other","totalBillingUsage","events"\r\n/);
  assert.is(csv.trim().split('\r\n').length, 3);
  const parquet = await saved(page, 'Download Parquet');
  assert.is(parquet.subarray(0, 4).toString(), 'PAR1');

  await page.getByLabel('Time zone').fill('Atlantis');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByRole('alert').getByText('must be a time zone', { exact: false }).first().waitFor();
  await page.getByRole('button', { name: 'Download CSV' }).click();
  await page.getByRole('alert').nth(1).waitFor();
  await close();
});

test('what is typed while rows load stays', async () => {
  let answer = () => {};
  const isTyped = new Promise<void>((resolve) => (answer = resolve));
  const { page, close } = await open('overview');
  await page.route('**/api/v1/usage?*', async (route) => {
    await isTyped;
    await route.continue();
  });
  await page.getByRole('link', { name: 'Usage', exact: true }).click();
  await page.getByLabel('Time zone').fill('Europe/Oslo');
  await page.getByRole('checkbox', { name: 'Meter' }).uncheck();
  answer();
  await inTable(page, 'Usage', 'forecast');
  assert.is(await page.getByLabel('Time zone').inputValue(), 'Europe/Oslo');
  assert.is(await page.getByRole('checkbox', { name: 'Meter' }).isChecked(), false);
  await close();
});

test('rows keep their columns until the next ones are there', async () => {
  const { page, close } = await open('usage');
  const table = page.getByRole('region', { name: 'Usage' });
  const headers = () => table.getByRole('columnheader').allInnerTexts();
  await inTable(page, 'Usage', 'forecast');
  const answer = Promise.withResolvers<void>();
  await page.route('**/api/v1/usage?*', async (route) => {
    await answer.promise;
    await route.continue();
  });
  await page.getByRole('checkbox', { name: 'Meter' }).uncheck();
  await page.getByLabel('By', { exact: true }).selectOption('month');
  const asked = page.waitForRequest('**/api/v1/usage?*');
  await page.getByRole('button', { name: 'Show' }).click();
  await asked;
  assert.equal((await headers()).slice(0, 2), ['Day (UTC)', 'Meter']);
  answer.resolve();
  await table.getByRole('columnheader', { name: 'From' }).waitFor();
  assert.equal((await headers()).slice(0, 2), ['From (UTC)', 'Usage']);
  await close();
});

test('a day of looking at the overview leaves the heap as it was', async () => {
  const { page, close } = await open('overview');
  await inTable(page, 'Calls by answer', 'VALID');
  await settled(page);
  // The page's own work, on the answers of the api: each round is one in which the tab comes into sight.
  await page.evaluate(`(() => {
    const [ask, kept] = [fetch, new Map()];
    let open = 0;
    window.fetch = async (path, options) => {
      const name = path.split('?')[0] + (path.match(/groupBy=.*/)?.[0] ?? '');
      open++;
      try {
        if (!kept.has(name)) kept.set(name, await (await ask(path, options)).text());
        return new Response(kept.get(name), { headers: { 'Content-Type': 'application/json' } });
      } finally { open--; }
    };
    window.rounds = async (count) => {
      for (let i = 0; i < count; i++) {
        document.dispatchEvent(new Event('visibilitychange'));
        do await new Promise((resolve) => setTimeout(resolve)); while (open > 0);
      }
    };
  })()`);
  const cdp = await page.context().newCDPSession(page);
  const measure = async () => {
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 500))');
    await cdp.send('HeapProfiler.collectGarbage');
    const { nodes, jsEventListeners } = await cdp.send('Memory.getDOMCounters');
    return { bytes: (await cdp.send('Runtime.getHeapUsage')).usedSize, nodes, jsEventListeners };
  };
  await page.evaluate('rounds(100)');
  const before = await measure();
  await page.evaluate(`rounds(${ROUNDS})`);
  const after = await measure();
  const told = `${JSON.stringify(before)} ${JSON.stringify(after)}`;
  assert.ok(after.bytes - before.bytes < MOST_GROWTH_BYTES, told);
  assert.ok(after.nodes - before.nodes < 500, told);
  assert.ok(after.jsEventListeners - before.jsEventListeners < 20, told);
  await close();
});

test.run();

const panel = (page: Page, name: string): Locator => page.getByRole('region', { name });

async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'))`);
}

async function saved(page: Page, button: string): Promise<Buffer> {
  const downloading = page.waitForEvent('download');
  await page.getByRole('button', { name: button }).click();
  return readFileSync(await (await downloading).path());
}

async function open(path: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await signedIn(browser, world);
  await page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  return { page, close };
}
