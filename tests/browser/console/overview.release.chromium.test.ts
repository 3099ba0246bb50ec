import type { Locator, Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { must } from '../../helpers/customers.ts';
import { eventually } from '../../helpers/world.ts';
import { inTable, rowOf, settled, stackOf } from './helpers/browser.ts';
import { consoleSuite } from './helpers/suite.ts';

// Whether all is well, as a person looks at it.

const { test, own } = await consoleSuite('the overview of the console', ['verify']);
// The hourly comparison would find what a test says of the books to be otherwise.
const holding = connectPostgres(own.world.env.DATABASE_URL!, { max: 1 });
await holding`select pg_advisory_lock(hashtext('keytally jobs'), hashtext('reconcile'))`;
await own.world.start('consumer');
test.after(() => holding.end());

test('verifications show while one looks, and are not asked for while the tab is hidden', async () => {
  const { key } = await own.customers.newKey({ name: 'Live' });
  const { page, close } = await own.open('overview');
  await page.getByText('No call in this time.').waitFor();
  await own.customers.verify({ key });
  await inTable(page, 'Calls by answer', 'VALID');
  assert.equal(await stackOf(page, 'VALID'), ['VALID']);
  await page.emulateMedia({ colorScheme: 'dark' });
  await eventually('the chart is drawn in the colours of the dark', async () => {
    return (await stackOf(page, 'VALID'))[0] === 'VALID';
  });
  await page.clock.install();
  await setHidden(page, true);
  await settled(page);
  let asked = 0;
  page.on('request', (request) => void (request.url().includes('/verifications?') && asked++));
  await own.customers.verify({ key });
  await page.clock.fastForward(60_000);
  assert.is(asked, 0);
  await setHidden(page, false);
  await rowOf(page, 'Calls by answer', 'VALID').getByText('2', { exact: true }).waitFor();
  await close();
});

test('customers with the least left, limits that were hit, webhooks that fail and books that differ lead to their pages', async () => {
  const { world, customers, workspaceId } = own;
  const meter = await customers.newMeter({ externalMeterId: 'alpine-club', totalCredits: '0' });
  await customers.newMeter({ externalMeterId: 'fjord-ferries', totalCredits: '1000' });
  const { id: billingId } = await customers.billing(meter);
  const limits = [{ name: 'monthly', unit: 'requests', limit: 1, per: 'month' }];
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
  const { page, close } = await own.open('overview');
  const low = panel(page, 'Customers with the least left');
  assert.match(await low.getByRole('listitem').first().innerText(), /alpine-club\s+0\s+Exhausted/);
  const hit = panel(page, 'Limits hit, last 24 hours');
  await eventually('the refusals are counted', async () => {
    await page.reload();
    await settled(page);
    const items = (await hit.getByRole('listitem').allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' '));
    return items.join() === 'Busy key/monthly 3 refused,Idle key/monthly 1 refused';
  });
  const books = panel(page, 'Books');
  await books.getByText('1 record differs').waitFor();
  await books.getByText('alpine-club by 2.5, since').waitFor();
  await books.getByTitle(new Date(provedAt).toISOString().replace('T', ' ').replace('Z', ' UTC')).waitFor();
  const failing = panel(page, 'Webhooks that fail');
  await failing.getByText('every try fails since').waitFor();
  for (const [link, address] of [
    [hit.getByRole('link', { name: 'Busy' }), `why?key=${id}`],
    [low.getByRole('link', { name: 'alpine-club' }), `customers/${billingId}`],
    [failing.getByRole('link'), `webhooks/${webhook.id}`],
  ] as const)
    assert.ok((await link.getAttribute('href'))!.endsWith(`/${address}`), address);
  await close();
});

const panel = (page: Page, name: string): Locator => page.getByRole('region', { name });

async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'))`);
}
